// The explorer: a control for each column; what the student says of the row that they make.

function explorer() {
  const { columns, order, first, examples, nothing } = about.explorer;
  const row = columns.map((column) => (column.type === "choice" ? { choice: column.start } : { value: column.start, missing: false }));

  // The numbers that a column's value becomes, as in Python.
  function numbersOf(column, state) {
    if (column.type === "none") return [];
    if (column.type === "choice") return state.choice === null ? column.average : column.vectors[state.choice];
    const value = state.missing ? column.fill : state.value, flag = column.indicates ? [Number(state.missing)] : [];
    if (column.periods === undefined) return [value, ...flag];
    const waves = column.periods.flatMap((period) => [Math.sin(2 * Math.PI * value / period), Math.cos(2 * Math.PI * value / period)]);
    return [...(column.line ? [value] : []), ...waves, ...flag];
  }
  const encoded = () => (nothing ? [0] : columns.flatMap((column, i) => numbersOf(column, row[i])));

  const parts = { big: element("p", { class: "big" }), more: element("p", { class: "more" }), interval: element("p"), true: element("p", { class: "more" }) };
  const bar = element("div", { class: "bar", "aria-hidden": "true" }), chart = element("div", { class: "chart" });
  let truth = null, said = null, width = 0;

  function density() {
    if (said === null || width === 0) return;
    const style = { background: "transparent", fontSize: "12px", fontFamily: "inherit", overflow: "visible" };
    let made;
    if (about.task === "regression") {
      const [low, high] = [said.lower - 0.35 * (said.upper - said.lower), said.upper + 0.35 * (said.upper - said.lower)];
      const at = d3.range(161).map((i) => low + (high - low) * i / 160);
      const curve = at.map((y) => ({ y, p: student.density(said, y) }));
      made = Plot.plot({
        width, height: 150, marginBottom: 34, marginLeft: 12, marginRight: 12, style, x: { label: about.target, ticks: 5, labelArrow: "none" }, y: { axis: null },
        marks: [Plot.areaY(curve.filter((d) => d.y >= said.lower && d.y <= said.upper), { x: "y", y: "p", fill: BLUE, fillOpacity: 0.25 }), Plot.lineY(curve, { x: "y", y: "p", stroke: BLUE }),
          Plot.ruleX([said.mean], { stroke: BLUE, strokeWidth: 2 }), truth === null ? null : Plot.ruleX([truth], { stroke: ORANGE, strokeDasharray: "4 3", strokeWidth: 2 }), Plot.ruleY([0], { stroke: LINE })],
      });
      named(made, "The density of what is predicted");
    } else {
      const rows = about.labels.map((label, c) => ({ label, p: said.probabilities[c], low: Math.max(0, said.probabilities[c] - 2 * said.epistemic_std[c]), high: Math.min(1, said.probabilities[c] + 2 * said.epistemic_std[c]) }))
        .sort((a, b) => b.p - a.p).slice(0, 8);
      made = Plot.plot({
        width, height: 46 + 26 * rows.length, marginLeft: 92, marginBottom: 34, style, x: { label: "probability", domain: [0, 1], ticks: 5, labelArrow: "none" }, y: { label: null, domain: rows.map((d) => d.label) },
        marks: [Plot.barX(rows, { x: "p", y: "label", fill: BLUE, fillOpacity: 0.35 }), Plot.link(rows, { x1: "low", x2: "high", y1: "label", y2: "label", stroke: BLUE, strokeWidth: 2 }), Plot.ruleX([0], { stroke: LINE })],
      });
      named(made, "The probability of each class, and how well it is known");
    }
    chart.replaceChildren(made);
  }

  function update() {
    const answer = student.predict(encoded());
    let share;
    if (about.task === "regression") {
      const { lower, upper } = student.interval(answer, 0.95);
      said = { ...answer, mean: answer.mean[0], lower: lower[0], upper: upper[0] };
      share = answer.epistemic_std[0] ** 2 / answer.std[0] ** 2;
      parts.big.textContent = words(said.mean);
      parts.interval.textContent = `95\u00a0% interval: ${words(said.lower)} to ${words(said.upper)}`;
    } else {
      said = answer;
      const best = d3.maxIndex(answer.probabilities), p = answer.probabilities[best];
      share = Math.min(1, answer.epistemic_std[best] ** 2 / Math.max(1e-12, p * (1 - p)));
      parts.big.textContent = about.labels[best];
      parts.interval.textContent = `probability ${percent(p, 1)}, known to ± ${percent(2 * answer.epistemic_std[best], 1)}`;
    }
    const unknown = element("i", { class: "unknown" }), noise = element("i", { class: "noise" });
    unknown.style.width = `${100 * share}%`; noise.style.width = `${100 * (1 - share)}%`;
    bar.replaceChildren(unknown, noise);
    parts.more.replaceChildren(key("--orange"), `not known (epistemic): ${percent(share)} of the variance `, key("--blue"), `noise: ${percent(1 - share)}`);
    parts.true.textContent = truth === null ? "" : `In this test row it was ${words(truth)}.`;
    density();
  }

  const setters = columns.map(() => () => {});
  function control(column, i) {
    const id = `control-${i}`, label = element("label", { for: id }, column.name);
    if (column.type === "choice" || column.type === "boolean") {
      const labels = column.type === "boolean" ? ["false", "true"] : column.labels;
      const missing = column.type === "boolean" && column.indicates ? ["missing"] : [];
      const input = element("select", { id }, [...labels, ...missing].map((word, k) => element("option", { value: k }, word)));
      const read = () => {
        const k = Number(input.value);
        row[i] = column.type === "choice" ? { choice: k } : { value: k === 2 ? column.fill : k, missing: k === 2 };
      };
      setters[i] = () => { input.value = column.type === "choice" ? row[i].choice : row[i].missing ? 2 : Math.round(row[i].value); };
      input.addEventListener("input", () => { read(); changed(); });
      setters[i]();
      return element("div", { class: "control" }, label, input);
    }
    const input = element("input", { id, type: "range", min: column.low, max: column.high, step: column.step });
    const output = element("output", { for: id }), box = element("input", { type: "checkbox", id: `${id}-missing` });
    const text = () => (row[i].missing ? "missing" : column.type === "date" ? dateWords(dayOf(row[i].value)) : column.type === "time" ? dayOf(row[i].value).toISOString().slice(11, 16) : words(row[i].value));
    setters[i] = () => {
      input.min = Math.min(column.low, row[i].value); input.max = Math.max(column.high, row[i].value);
      input.value = row[i].value; box.checked = row[i].missing; input.disabled = row[i].missing;
      output.textContent = text(); input.setAttribute("aria-valuetext", text());
    };
    input.addEventListener("input", () => { row[i].value = Number(input.value); output.textContent = text(); input.setAttribute("aria-valuetext", text()); changed(); });
    box.addEventListener("input", () => { row[i].missing = box.checked; setters[i](); changed(); });
    setters[i]();
    const missing = column.indicates ? element("span", { class: "missing" }, box, element("label", { for: `${id}-missing` }, "missing")) : null;
    return element("div", { class: "control" }, label, input, output, missing);
  }
  function changed() { truth = null; update(); }

  function set(values, known) {
    columns.forEach((column, i) => {
      if (column.type === "none") return;
      const value = values === null ? column.start : values[i];
      if (column.type !== "choice") row[i] = value === null ? { value: column.fill, missing: column.indicates } : { value: Number(value), missing: false };
      else if (values === null) row[i] = { choice: value };
      else {
        const place = column.labels.indexOf(value === null ? "missing" : String(value)), other = column.others && value !== null ? column.labels.indexOf("another") : -1;
        row[i] = { choice: place >= 0 ? place : other >= 0 ? other : null };
      }
      setters[i]();
    });
    truth = known;
    update();
  }

  const shown = order.slice(0, first).map((i) => control(columns[i], i)), rest = order.slice(first).map((i) => control(columns[i], i));
  let next = 0;
  const example = element("button", { type: "button" }, "A test row");
  example.addEventListener("click", () => { set(examples[next % examples.length], about.explorer.true[next % examples.length]); next += 1; });
  const usual = element("button", { type: "button" }, "A typical row");
  usual.addEventListener("click", () => set(null, null));
  const more = rest.length ? [element("details", {}, element("summary", {}, `${rest.length} more columns`), rest)] : [];
  const controls = element("div", { class: "card" }, element("div", { class: "buttons" }, usual, example), shown, more);
  const answer = element("div", { class: "card said" }, element("div", { role: "status", "aria-live": "polite" }, element("p", { class: "kicker" }, `predicted ${about.target}`), parts.big, parts.interval, bar, parts.more, parts.true), chart);
  new ResizeObserver(() => { const now = Math.round(chart.clientWidth); if (now !== width) { width = now; density(); } }).observe(chart);
  update();
  return element("div", { class: "explorer" }, controls, answer);
}

function key(colour) {
  const made = element("span", { class: "key" });
  made.style.background = `var(${colour})`;
  return made;
}
