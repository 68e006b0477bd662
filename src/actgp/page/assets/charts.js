// What all charts share: elements, numbers in words, figures that are drawn again when their width changes.

const about = JSON.parse(document.getElementById("numbers").textContent);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

// Numbers with about four digits that count, and true minus signs.
function words(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  const far = size !== 0 && (size >= 1e7 || size < 1e-4);
  const options = far ? { notation: "scientific", maximumFractionDigits: 2 }
    : size >= 10 ** (digits - 1) ? { maximumFractionDigits: 0, useGrouping: "min2" } : { maximumSignificantDigits: digits };
  return new Intl.NumberFormat("en", options).format(value).replace("-", "−");
}
const percent = (part, digits = 0) => `${(100 * part).toFixed(digits)}\u00a0%`;
const dayOf = (days) => new Date(days * 86400000);
const dateWords = (value) => new Date(value).toISOString().slice(0, 10);

const BLUE = "var(--blue)", ORANGE = "var(--orange)", GREEN = "var(--green)", PURPLE = "var(--purple)";
const SOFT = "var(--soft)", LINE = "var(--line)", SERIES = [BLUE, ORANGE, GREEN, PURPLE];

// A table, which scrolls by itself where there is no room for it.
function table(columns, rows, { label, numeric = [], classes = [], wraps = [] }) {
  const kind = (i) => (numeric.includes(i) ? "number" : wraps.includes(i) ? "wrap" : null);
  const cell = (value, i) => (i === 0 ? element("th", { scope: "row" }, value)
    : element("td", { class: kind(i) }, value));
  const head = columns.map((name, i) => element("th", { scope: "col", class: kind(i) }, name));
  const body = rows.map((row, n) => element("tr", { class: classes[n] ?? null }, row.map(cell)));
  const made = element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, body));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, made);
}

// Draws into a place whenever its width is another one.
function drawn(place, draw) {
  let width = 0;
  const again = () => {
    const now = Math.round(place.clientWidth);
    if (now > 0 && now !== width) { width = now; place.replaceChildren(draw(width)); }
  };
  new ResizeObserver(again).observe(place);
}

// A chart is one picture with a name: what its marks are called is of no use inside it.
function named(svg, text) {
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", text);
  for (const mark of svg.querySelectorAll("[aria-label], [aria-description]")) {
    mark.removeAttribute("aria-label");
    mark.removeAttribute("aria-description");
  }
}

// A figure: heading, what it shows in words, the chart, and its numbers as a table that is made when it is opened.
function figure({ title, text, said, plot, numbers, height = 260 }) {
  const place = element("div", { class: "chart" });
  const made = element("figure", {}, element("figcaption", {}, element("h3", {}, title), text ? element("p", {}, text) : null), place);
  drawn(place, (width) => {
    const style = { background: "transparent", fontSize: "12px", fontFamily: "inherit", overflow: "visible" };
    const chart = Plot.plot({ width, height, marginLeft: 54, marginRight: 14, marginBottom: 38, style, ...plot(width) });
    const svg = chart.tagName.toLowerCase() === "svg" ? chart : [...chart.querySelectorAll("svg")].at(-1);
    named(svg, `${title}. ${said ?? text ?? ""}`);
    return chart;
  });
  if (numbers) {
    const details = element("details", {}, element("summary", {}, "The numbers"));
    details.addEventListener("toggle", () => {
      if (!details.open || details.children.length > 1) return;
      const { columns, rows, numeric } = numbers();
      details.append(table(columns, rows, { label: `Numbers of: ${title}`, numeric }));
    });
    made.append(details);
  }
  return made;
}

// Options of an axis with values of a scale, which may be long words.
function axis(scale, label) {
  if (scale === "choice") return { label, type: "point", tickRotate: -28, padding: 0.6, tickFormat: (d) => (String(d).length > 12 ? `${String(d).slice(0, 11)}…` : d) };
  return { label, ticks: 4, ...(scale === "date" ? { type: "utc" } : { tickFormat: (d) => words(d) }), labelArrow: "none" };
}
const onScale = (scale, value) => (value === null ? null : scale === "date" ? new Date(value)
  : scale === "choice" ? (typeof value === "number" ? words(value) : String(value)) : value);
const ISO = /^\d{4}-\d\d-\d\dT/;
const inWords = (scale, value) => (scale === "date" ? dateWords(value) : cell(value));
const cell = (value) => (typeof value === "string" && ISO.test(value) ? value.slice(0, 16).replace("T00:00", "").replace("T", " ") : words(value));

function section(id, title, text, ...children) {
  document.getElementById("sections").append(element("li", {}, element("a", { href: `#${id}` }, title)));
  document.getElementById("main").append(
    element("section", { id, "aria-labelledby": `${id}-title` }, element("h2", { id: `${id}-title` }, title), text ? element("p", {}, text) : null, ...children),
  );
}
