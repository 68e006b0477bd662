// Asks model.onnx what it says of the row that the sliders make. columns.json says what the sliders are.
import * as ort from "./node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs";

ort.env.wasm.numThreads = 1; // more need a server that isolates pages
ort.env.wasm.wasmPaths = new URL("./node_modules/onnxruntime-web/dist/", import.meta.url).href;

const about = await (await fetch("columns.json")).json();
// "basic": more would join x · sigmoid(x) to an operation that onnxruntime has in single precision only.
const options = { executionProviders: ["wasm"], graphOptimizationLevel: "basic" };
const model = await ort.InferenceSession.create("model.onnx", options);
const row = Float32Array.from(about.columns, (column) => column.start);
const at = (id) => document.getElementById(id);
const words = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });

async function predict() {
  const asked = row.join();
  const said = await model.run({ X: new ort.Tensor("float32", row, [1, row.length]) });
  const number = (name) => said[name].data[0];
  const [mean, lower, upper] = ["mean", "lower", "upper"].map(number);
  at("mean").textContent = words(mean);
  at("interval").textContent = `${100 * about.level} % interval: ${words(lower)} to ${words(upper)}`;
  at("share").textContent = `not known: ${Math.round(100 * (number("epistemic_std") / number("std")) ** 2)} % of the variance`;
  const place = (y) => 100 * Math.min(1, Math.max(0, (y - about.low) / (about.high - about.low)));
  at("band").style.left = `${place(lower)}%`;
  at("band").style.width = `${place(upper) - place(lower)}%`;
  at("mark").style.left = `${place(mean)}%`;
  document.body.dataset.row = asked; // of which the page now speaks
}

// One row at a time: a session must have answered before it is asked again.
let asked = false, busy = false;
async function changed() {
  asked = true;
  if (busy) return;
  busy = true;
  while (asked) { asked = false; await predict(); }
  busy = false;
}

at("target").textContent = `predicted ${about.target}`;
about.columns.forEach(({ name, low, high, start }, i) => {
  const label = document.createElement("label"), input = document.createElement("input"), output = document.createElement("output");
  Object.assign(input, { type: "range", min: low, max: high, step: (high - low) / 200, value: start });
  output.textContent = words(start);
  input.addEventListener("input", () => { row[i] = Number(input.value); output.textContent = words(row[i]); changed(); });
  label.append(Object.assign(document.createElement("span"), { textContent: name }), input, output);
  at("columns").append(label);
});
await changed();
