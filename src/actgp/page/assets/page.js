// The page: its sections, from the numbers.

const regression = about.task === "regression";
const [ours, trees, nothing] = about.scores;

function head() {
  const rows = `${words(about.rows.train)} rows to learn from, ${words(about.rows.test)} kept aside to judge by`;
  document.getElementById("task").textContent = about.task;
  document.getElementById("title").textContent = about.target;
  const used = about.columns.filter((column) => column.numbers > 0).length;
  document.getElementById("lead").textContent = `Predicted from ${used} ${used === 1 ? "column" : "columns"}, with what is known of the error: ${rows}.`;
  const facts = regression
    ? [[words(ours.RMSE), `root mean squared error; trees ${words(trees.RMSE)}, the mean alone ${words(nothing.RMSE)}`],
      [words(ours.NLPD, 3), `negative log density (NLPD); trees ${words(trees.NLPD, 3)}`],
      [percent(ours.coverage, 1), "of the test targets lie in their 95\u00a0% interval"],
      [percent(about.share), "of the variance is not known yet; the rest is noise"]]
    : [[percent(ours.accuracy, 1), `right; trees ${percent(trees.accuracy, 1)}, the most frequent class ${percent(nothing.accuracy, 1)}`],
      [words(ours["log-loss"], 3), `log-loss; trees ${words(trees["log-loss"], 3)}, class frequencies ${words(nothing["log-loss"], 3)}`],
      [percent(ours.ECE, 1), `calibration error (ECE); trees ${percent(trees.ECE, 1)}`],
      [percent(about.unlike, 1), "of the test rows are unlike the training rows"]];
  document.querySelector("header").append(element("div", { class: "facts" }, facts.map(([value, text]) => element("div", { class: "fact" }, element("b", {}, value), element("span", {}, text)))));
}

function quality() {
  const names = Object.keys(ours).filter((name) => name !== "model");
  const shown = (name, value) => (["coverage", "accuracy", "ECE"].includes(name) ? percent(value, 1) : words(value));
  const scores = element("div", { class: "card" }, element("h3", {}, "Scores on rows kept aside"),
    table(["model", ...names.map((name) => (name === "width" ? "median width of 95 % intervals" : name))], about.scores.map((score) => [score.model, ...names.map((name) => shown(name, score[name]))]), { label: "Scores", numeric: d3.range(1, names.length + 1), classes: ["ours"] }),
    element("p", {}, regression ? "Trees are scikit-learn's HistGradientBoosting; their density is a normal one, as wide as their errors on a fifth of the training rows." : "Trees are scikit-learn's HistGradientBoosting."));
  const charts = regression ? [predictedAgainstTrue(), calibration(), histogram(), widths()] : [reliability(), confusion()];
  section("quality", "How good it is", "All of this is about test rows, which the model has not seen.", element("div", { class: "grid" }, scores), element("div", { class: "grid two" }, charts));
}

function predictedAgainstTrue() {
  const { true: y, mean, lower, upper, of } = about.sample;
  const rows = y.map((value, i) => ({ y: value, mean: mean[i], lower: lower[i], upper: upper[i], out: value < lower[i] || value > upper[i] }));
  const ends = d3.extent(rows.flatMap((d) => [d.y, d.mean]));
  const inside = d3.mean(rows, (d) => !d.out);
  return figure({
    title: "Predicted against true", height: 320,
    text: `Each of ${rows.length}${of > rows.length ? ` (of ${words(of)})` : ""} test rows with its 95 % interval; on the line they would be exact. Orange: outside of the interval.`,
    said: `Of the points ${percent(inside)} have the true value inside their interval.`,
    plot: () => ({
      grid: true, x: { label: "true", labelArrow: "none", ticks: 5 }, y: { label: "predicted", labelArrow: "none" },
      marks: [Plot.link([0], { x1: ends[0], y1: ends[0], x2: ends[1], y2: ends[1], stroke: SOFT, strokeDasharray: "4 3" }),
        Plot.ruleX(rows, { x: "y", y1: "lower", y2: "upper", stroke: (d) => (d.out ? ORANGE : BLUE), strokeOpacity: 0.22 }),
        Plot.dot(rows, { x: "y", y: "mean", r: 2.4, fill: (d) => (d.out ? ORANGE : BLUE), tip: { fill: "var(--card)" }, title: (d) => `true ${words(d.y)}\npredicted ${words(d.mean)}\n${words(d.lower)} to ${words(d.upper)}` })],
    }),
    numbers: () => ({ columns: ["true", "predicted", "lower", "upper"], rows: rows.slice(0, 50).map((d) => [d.y, d.mean, d.lower, d.upper].map((v) => words(v))), numeric: [1, 2, 3] }),
  });
}

function calibration() {
  const { levels, covered } = about.calibration, rows = levels.map((level, i) => ({ level, covered: covered[i] }));
  const gap = d3.max(rows, (d) => Math.abs(d.level - d.covered));
  return figure({
    title: "Calibration", height: 320, text: `How many targets lie in central intervals of each level. The largest gap is ${percent(gap)}; below the line intervals are too narrow.`,
    plot: () => ({
      grid: true, x: { label: "level of the interval", domain: [0, 1], percent: false, tickFormat: "%", labelArrow: "none" }, y: { label: "targets inside", domain: [0, 1], tickFormat: "%", labelArrow: "none" },
      marks: [Plot.link([0], { x1: 0, y1: 0, x2: 1, y2: 1, stroke: SOFT, strokeDasharray: "4 3" }), Plot.lineY(rows, { x: "level", y: "covered", stroke: BLUE, strokeWidth: 2 }), Plot.dot(rows, { x: "level", y: "covered", fill: BLUE, r: 3 })],
    }),
    numbers: () => ({ columns: ["level", "targets inside"], rows: rows.map((d) => [percent(d.level), percent(d.covered, 1)]), numeric: [1] }),
  });
}

function histogram() {
  const parts = about.calibration.histogram, bins = parts.map((part, i) => ({ x1: i / parts.length, x2: (i + 1) / parts.length, part }));
  return figure({
    title: "Where targets fall in their distribution", text: "P(Y ≤ y) of each test row (the PIT). Flat is calibrated; a hill says intervals are too wide, a valley that they are too narrow, a slope that predictions are shifted.",
    plot: () => ({
      x: { label: "P(Y ≤ y)", domain: [0, 1], labelArrow: "none", ticks: 5 }, y: { label: "part of the rows", tickFormat: "%", labelArrow: "none", ticks: 4 },
      marks: [Plot.rectY(bins, { x1: "x1", x2: "x2", y: "part", fill: BLUE, fillOpacity: 0.55, insetLeft: 1, insetRight: 1 }), Plot.ruleY([1 / parts.length], { stroke: SOFT, strokeDasharray: "4 3" }), Plot.ruleY([0], { stroke: LINE })],
    }),
    numbers: () => ({ columns: ["P(Y ≤ y)", "part of the rows"], rows: bins.map((d) => [`${d.x1.toFixed(1)} to ${d.x2.toFixed(1)}`, percent(d.part, 1)]), numeric: [1] }),
  });
}

function widths() {
  const rows = about.widths.promised.map((promised, i) => ({ promised, found: about.widths.found[i], rows: about.widths.rows[i] }));
  const end = d3.max(rows, (d) => Math.max(d.promised, d.found)) * 1.08;
  return figure({
    title: "Width of intervals against errors", text: "Test rows in groups, from narrow to wide 68 % intervals: 68 % of a group's errors are below the height of its point. On the line the widths are true.",
    plot: () => ({
      grid: true, x: { label: "half the width that is promised", domain: [0, end], labelArrow: "none", ticks: 5 }, y: { label: "error that is found", domain: [0, end], labelArrow: "none" },
      marks: [Plot.link([0], { x1: 0, y1: 0, x2: end, y2: end, stroke: SOFT, strokeDasharray: "4 3" }), Plot.dot(rows, { x: "promised", y: "found", r: 4.5, fill: BLUE })],
    }),
    numbers: () => ({ columns: ["promised", "found", "rows"], rows: rows.map((d) => [words(d.promised), words(d.found), words(d.rows)]), numeric: [1, 2] }),
  });
}

function reliability() {
  const rows = about.reliability.sure.map((sure, i) => ({ sure, right: about.reliability.right[i], rows: about.reliability.rows[i] }));
  return figure({
    title: "Calibration", height: 320, text: "Test rows in groups by the probability of the class that was chosen, and how often it was right. Below the line predictions are too sure; larger points are more rows.",
    plot: () => ({
      grid: true, x: { label: "probability of the chosen class", domain: [0, 1], tickFormat: "%", labelArrow: "none", ticks: 5 }, y: { label: "how often it is right", domain: [0, 1], tickFormat: "%", labelArrow: "none" }, r: { range: [3, 11] },
      marks: [Plot.link([0], { x1: 0, y1: 0, x2: 1, y2: 1, stroke: SOFT, strokeDasharray: "4 3" }), Plot.lineY(rows, { x: "sure", y: "right", stroke: BLUE }), Plot.dot(rows, { x: "sure", y: "right", r: "rows", fill: BLUE, fillOpacity: 0.75 })],
    }),
    numbers: () => ({ columns: ["probability", "right", "rows"], rows: rows.map((d) => [percent(d.sure, 1), percent(d.right, 1), words(d.rows)]), numeric: [1, 2] }),
  });
}

function confusion() {
  const cells = about.confusion.flatMap((row, i) => row.map((count, j) => ({ true: about.labels[i], taken: about.labels[j], count, part: count / Math.max(1, d3.sum(row)) })));
  const few = about.labels.length <= 12;
  return figure({
    title: "What is taken for what", height: 320, text: "True classes in rows, predicted ones in columns; colours are parts of a row.",
    plot: () => ({
      marginLeft: 84, marginBottom: 52, x: { label: "predicted", domain: about.labels, tickRotate: about.labels.length > 4 ? -30 : 0, labelArrow: "none" }, y: { label: "true", domain: about.labels, labelArrow: "none" },
      marks: [Plot.cell(cells, { x: "taken", y: "true", fill: BLUE, fillOpacity: (d) => 0.06 + 0.74 * d.part, inset: 1 }), few ? Plot.text(cells, { x: "taken", y: "true", text: (d) => words(d.count), fill: "var(--ink)", fontWeight: 600 }) : null],
    }),
    numbers: () => ({ columns: ["true", "predicted", "rows"], rows: cells.filter((d) => d.count > 0).map((d) => [d.true, d.taken, words(d.count)]), numeric: [2] }),
  });
}

function columns() {
  const falls = about.relevance;
  if (falls.length === 0) return;
  const relevance = figure({
    title: "Relevance of columns", height: 60 + 24 * falls.length, text: "How much the log density of test rows falls if a column's values are shuffled (nats), with two standard errors.",
    plot: () => ({
      marginLeft: 124, x: { label: "nats", labelArrow: "none", ticks: 5, grid: true }, y: { label: null, domain: falls.map((d) => d.column), tickFormat: (d) => (d.length > 17 ? `${d.slice(0, 16)}…` : d) },
      marks: [Plot.barX(falls, { x: "fall", y: "column", fill: BLUE, fillOpacity: 0.55, insetTop: 2, insetBottom: 2 }), Plot.link(falls, { x1: (d) => d.fall - 2 * d.error, x2: (d) => d.fall + 2 * d.error, y1: "column", y2: "column", stroke: "var(--ink)" }), Plot.ruleX([0], { stroke: SOFT })],
    }),
    numbers: () => ({ columns: ["column", "nats", "± 2 standard errors"], rows: falls.map((d) => [d.column, words(d.fall, 3), words(2 * d.error, 3)]), numeric: [1, 2] }),
  });
  const drawnEffects = about.effects.map(effect);
  section("columns", "What counts", "What the model has learnt of the columns. Effects are averages over rows: if a column had another value in each of them. They say what the model does, not what causes what.",
    element("div", { class: "grid" }, relevance), element("div", { class: "grid small" }, drawnEffects), about.pairs.length ? element("div", { class: "grid" }, about.pairs.map(pair)) : null);
}

function effect({ column, scale, values, series }) {
  const rows = series.flatMap(({ label, mean, lower, upper }, s) => values.map((value, i) => ({ x: onScale(scale, value), label, colour: SERIES[s], mean: mean[i], lower: lower[i], upper: upper[i] })));
  const several = series.length > 1, label = regression ? about.target : several ? "probability" : `P(${series[0].label})`;
  const named = several ? `Classes: ${series.map((d, s) => `${d.label} (${["blue", "orange", "green", "purple"][s]})`).join(", ")}.` : null;
  return figure({
    title: column, height: 210, text: named, said: `Partial effect of ${column} on ${label}: from ${words(d3.min(rows, (d) => d.mean))} to ${words(d3.max(rows, (d) => d.mean))}.`,
    plot: () => ({
      marginBottom: scale === "choice" ? 62 : 34, x: { ...axis(scale, null), ...(scale === "choice" ? { domain: values.map((v) => onScale(scale, v)) } : {}) }, y: { label, grid: true, labelArrow: "none", ticks: 5, zero: false },
      marks: scale === "choice"
        ? [Plot.ruleX(rows, { x: "x", y1: "lower", y2: "upper", stroke: "colour", strokeWidth: 2, strokeOpacity: 0.5 }), Plot.dot(rows, { x: "x", y: "mean", fill: "colour", r: 4 })]
        : [Plot.areaY(rows, { x: "x", y1: "lower", y2: "upper", z: "label", fill: "colour", fillOpacity: 0.2 }), Plot.lineY(rows, { x: "x", y: "mean", z: "label", stroke: "colour", strokeWidth: 2 })],
    }),
    numbers: () => ({ columns: [column, ...(several ? ["class"] : []), "mean", "lower", "upper"], rows: rows.map((d, i) => [inWords(scale, values[i % values.length]), ...(several ? [d.label] : []), words(d.mean), words(d.lower), words(d.upper)]), numeric: several ? [2, 3, 4] : [1, 2, 3] }),
  });
}

function pair({ columns: [first, second], scales, values: [xs, ys], mean, label }) {
  const cells = xs.flatMap((x, i) => ys.map((y, j) => ({ x: short(scales[0], x), y: short(scales[1], y), mean: mean[i * ys.length + j] })));
  const [low, high] = d3.extent(cells, (d) => d.mean), name = label === null ? about.target : `P(${label})`;
  const few = (all) => all.filter((_, i) => all.length <= 6 || i % Math.ceil(all.length / 6) === 0);
  return figure({
    title: `${first} and ${second}`, height: 290, text: `What is predicted for both together: ${name}, from ${words(low)} to ${words(high)}.`,
    plot: () => ({
      marginLeft: 92, marginBottom: 62, x: { label: first, domain: xs.map((x) => short(scales[0], x)), ticks: few(xs.map((x) => short(scales[0], x))), tickRotate: -28, labelArrow: "none" },
      y: { label: second, domain: ys.map((y) => short(scales[1], y)).reverse(), ticks: few(ys.map((y) => short(scales[1], y))), labelArrow: "none" },
      color: { scheme: "viridis", legend: true, label: name, width: 200 },
      marks: [Plot.cell(cells, { x: "x", y: "y", fill: "mean" })],
    }),
    numbers: () => ({ columns: [first, second, name], rows: cells.map((d) => [d.x, d.y, words(d.mean)]), numeric: [2] }),
  });
}
const short = (scale, value) => (typeof value === "number" ? words(value, 3) : inWords(scale, value));

function errors() {
  const drawnResiduals = regression ? about.residuals.map(residual) : [];
  const rows = about.unsure.map((row) => [
    regression ? `${words(row.mean)}  (${words(row.lower)} to ${words(row.upper)})` : `${row.predicted}  (${percent(row.probability)})`,
    cell(row.true), percent(row.share), row.why, row.values.map(([name, value]) => `${name} ${cell(value)}`).join(", "),
  ]);
  const unsure = element("div", { class: "card" }, element("h3", {}, "Rows the model is least sure of"),
    table(["predicted", "true", "not known", "why", "the row"], rows, { label: "Rows the model is least sure of", numeric: [1, 2], wraps: [3, 4] }));
  section("errors", "Where it errs", `Of the test rows ${percent(about.unlike, 1)} are unlike the training rows.${regression ? " Residuals are in units of what the model expects: if they have a shape along a column, there is more to learn from it; most should lie within ± 2." : ""}`,
    element("div", { class: "grid small" }, drawnResiduals), element("div", { class: "grid" }, unsure));
}

function residual({ column, scale, values, scores }) {
  const rows = values.map((value, i) => ({ x: onScale(scale, value), z: scores[i] })).filter((d) => d.x !== null);
  const large = d3.mean(rows, (d) => Math.abs(d.z) > 2);
  return figure({
    title: column, height: 190, said: `Standardised residuals along ${column}: ${percent(large, 1)} beyond two.`,
    plot: () => ({
      marginBottom: scale === "choice" ? 62 : 34, x: axis(scale, null), y: { label: "residual", domain: [-4, 4], ticks: [-2, 0, 2], grid: true, labelArrow: "none" },
      marks: [Plot.ruleY([0], { stroke: SOFT }), Plot.dot(rows, { x: "x", y: (d) => Math.max(-4, Math.min(4, d.z)), r: 2, fill: (d) => (Math.abs(d.z) > 2 ? ORANGE : BLUE), fillOpacity: 0.6 })],
    }),
  });
}

function training() {
  const { members, mixture, judged, stopped, seconds, student: said } = about.training;
  const kinds = table(["column", "kind", "missing", "numbers", "how it is used"], about.columns.map((c) => [c.name, c.kind, words(c.missing), words(c.numbers), c.note]), { label: "Columns", numeric: [2, 3], wraps: [4] });
  const parts = Object.entries(seconds).map(([part, value]) => ({ part, value }));
  const weights = table(["member", "weight", "log density"], [...members.map((m) => [m.member, percent(m.weight), words(m.score, 3)]), ["all, mixed", "", words(mixture, 3)]], { label: "Members of the mixture", numeric: [1, 2], classes: [...members.map(() => ""), "ours"] });
  const notes = about.notes.length ? element("ul", { class: "notes" }, about.notes.map((note) => element("li", {}, note))) : null;
  const time = figure({
    title: "Time", height: 60 + 26 * parts.length, text: `Training ended because ${stopped === "steps" ? "all steps were taken" : stopped === "interrupt" ? "it was interrupted" : "the time budget was used up"}.`,
    plot: () => ({ marginLeft: 74, x: { label: "seconds", labelArrow: "none", ticks: 4, grid: true }, y: { label: null, domain: parts.map((d) => d.part) }, marks: [Plot.barX(parts, { x: "value", y: "part", fill: BLUE, fillOpacity: 0.55, insetTop: 2, insetBottom: 2 }), Plot.ruleX([0], { stroke: SOFT })] }),
    numbers: () => ({ columns: ["part", "seconds"], rows: parts.map((d) => [d.part, words(d.value, 3)]), numeric: [1] }),
  });
  section("training", "How it was made", `The target ${about.target} is a ${about.task}: ${about.why}.`,
    element("div", { class: "card" }, element("h3", {}, "What the table was taken for"), kinds, notes),
    element("div", { class: "grid" }, element("div", { class: "card" }, element("h3", {}, "Members of the mixture"), element("p", {}, `Weights by the log density of ${words(judged)} rows that each member had not seen, in units of the standardised target.`), weights), time));
  document.getElementById("footer").append(element("p", {}, `Made with actgp ${about.version}. The explorer asks a small network that was taught to say what the model says: at ${words(said.rows)} places that it had not seen, its log density is lower by ${words(said.excess, 2)} nats on average. Charts: Observable Plot and D3 (ISC licences). This page refers to no other file.`));
}

head();
section("explorer", "Explore", "Move the columns, and see what is predicted, how wide the interval is, and how much of it is not known. Far from the training rows the model should know less.", explorer());
quality();
columns();
errors();
training();
