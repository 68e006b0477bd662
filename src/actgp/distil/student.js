// Runs a list of tensor operations, which actgp.distil.javascript writes below it. Shapes are fixed, numbers are doubles.

function tensorsOf(program) {
  const decoded = (text, single) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return single ? Float64Array.from(new Float32Array(bytes.buffer)) : new Float64Array(bytes.buffer);
  };
  const values = [];
  for (const [place, shape, single, text] of program.constants) values[place] = { shape, data: decoded(text, single) };
  return values;
}

const size = (shape) => shape.reduce((a, b) => a * b, 1);

// Strides of a tensor that is read as one of another shape: zero along dimensions that are broadcast.
function strides(from, to) {
  const found = new Array(to.length).fill(0);
  for (let i = from.length - 1, step = 1; i >= 0; step *= from[i--]) {
    if (from[i] > 1) found[i + to.length - from.length] = step;
  }
  return found;
}

// Calls visit(output position, input positions) for each place of a shape; inputs are walked by their strides.
function walk(shape, steps, starts, visit) {
  const at = new Array(shape.length).fill(0), places = starts.slice(), N = size(shape);
  for (let n = 0; n < N; n++) {
    visit(n, places);
    for (let d = shape.length - 1; d >= 0; d--) {
      for (let k = 0; k < places.length; k++) places[k] += steps[k][d];
      if (++at[d] < shape[d]) break;
      for (let k = 0; k < places.length; k++) places[k] -= steps[k][d] * shape[d];
      at[d] = 0;
    }
  }
}

function elementwise(f) {
  return (inputs, shape) => {
    const data = new Float64Array(size(shape)), [a, b, c] = inputs.map((x) => x.data);
    if (inputs.every((x) => x.data.length === data.length)) {
      for (let n = 0; n < data.length; n++) data[n] = f(a[n], b && b[n], c && c[n]);
    } else {
      const steps = inputs.map((x) => strides(x.shape, shape));
      walk(shape, steps, inputs.map(() => 0), (n, [i, j, k]) => { data[n] = f(a[i], b && b[j], c && c[k]); });
    }
    return data;
  };
}

// The input is read from a start by given steps.
function strided([x], shape, [start, steps]) {
  const data = new Float64Array(size(shape));
  walk(shape, [steps], [start], (n, [i]) => { data[n] = x.data[i]; });
  return data;
}

// Over dimensions that have length one in `kept`; `shape` may lack them.
function reduced(first, f) {
  return ([x], shape, [kept]) => {
    const data = new Float64Array(size(shape)).fill(first);
    walk(x.shape, [strides(kept, x.shape)], [0], (n, [i]) => { data[i] = f(data[i], x.data[n]); });
    return data;
  };
}

// [*, N, K] times [*, K, M].
function product([x, y], shape) {
  const [N, K] = x.shape.slice(-2), M = y.shape.at(-1), data = new Float64Array(size(shape));
  for (let b = 0; b < data.length / (N * M); b++) {
    for (let n = 0; n < N; n++) {
      for (let k = 0; k < K; k++) {
        const factor = x.data[(b * N + n) * K + k];
        for (let m = 0; m < M; m++) data[(b * N + n) * M + m] += factor * y.data[(b * K + k) * M + m];
      }
    }
  }
  return data;
}

function joined(inputs, shape, [outer]) {
  const data = new Float64Array(size(shape)), widths = inputs.map((x) => x.data.length / outer);
  for (let o = 0, place = 0; o < outer; o++) {
    inputs.forEach((x, i) => {
      data.set(x.data.subarray(o * widths[i], (o + 1) * widths[i]), place);
      place += widths[i];
    });
  }
  return data;
}

const OPERATIONS = {
  add: elementwise((a, b) => a + b),
  sub: elementwise((a, b) => a - b),
  mul: elementwise((a, b) => a * b),
  div: elementwise((a, b) => a / b),
  pow: elementwise((a, b) => a ** b),
  maximum: elementwise((a, b) => Math.max(a, b)),
  minimum: elementwise((a, b) => Math.min(a, b)),
  lt: elementwise((a, b) => +(a < b)),
  le: elementwise((a, b) => +(a <= b)),
  gt: elementwise((a, b) => +(a > b)),
  ge: elementwise((a, b) => +(a >= b)),
  where: elementwise((a, b, c) => (a ? b : c)),
  neg: elementwise((a) => -a),
  abs: elementwise((a) => Math.abs(a)),
  sign: elementwise((a) => Math.sign(a)),
  sqrt: elementwise((a) => Math.sqrt(a)),
  exp: elementwise((a) => Math.exp(a)),
  log: elementwise((a) => Math.log(a)),
  tanh: elementwise((a) => Math.tanh(a)),
  sigmoid: elementwise((a) => 1 / (1 + Math.exp(-a))),
  sum: reduced(0, (a, b) => a + b),
  amax: reduced(-Infinity, (a, b) => Math.max(a, b)),
  amin: reduced(Infinity, (a, b) => Math.min(a, b)),
  view: ([x]) => x.data,
  product,
  joined,
  strided,
};

function run(program, values, x) {
  values[program.input] = { shape: [1, x.length], data: Float64Array.from(x) };
  for (const [name, place, inputs, shape, options] of program.steps) {
    values[place] = { shape, data: OPERATIONS[name](inputs.map((i) => values[i]), shape, options) };
  }
  return program.outputs.map(([name, place]) => [name, values[place]]);
}

// Φ(z), to 1e-7 (Numerical Recipes, erfc).
function normalCdf(z) {
  const x = Math.abs(z) / Math.SQRT2, t = 1 / (1 + 0.5 * x);
  const terms = [0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196,
    1.00002368, -1.26551223];
  const tail = 0.5 * t * Math.exp(-x * x + terms.reduce((sum, term) => sum * t + term, 0));
  return z > 0 ? 1 - tail : tail;
}

// The point below which a mixture of normals has the probability p.
function quantile(weights, means, variances, p) {
  const sds = variances.map(Math.sqrt);
  let low = Math.min(...means.map((m, k) => m - 40 * sds[k])), high = Math.max(...means.map((m, k) => m + 40 * sds[k]));
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    const below = weights.reduce((sum, w, k) => sum + w * normalCdf((middle - means[k]) / sds[k]), 0);
    if (below < p) low = middle; else high = middle;
  }
  return (low + high) / 2;
}

// T(y) of targets with a long tail, its inverse, and its derivative, as actgp.distil.long_tail has them.
const within = (value, low, high) => Math.min(Math.max(value, low), high);

function shortened(y, [s, b, a, U]) {
  const u = s * y - b, inside = within(u, 0, U);
  return s * (Math.log(1 + inside / a) + (u - inside) / (a + inside));
}

function lengthened(t, [s, b, a, U]) {
  const v = s * t, inside = within(v, 0, Math.log(1 + U / a)), grown = a * Math.exp(inside);
  return s * (grown - a + (v - inside) * grown + b);
}

const slope = (y, [s, b, a, U]) => 1 / (a + within(s * y - b, 0, U));

function makeStudent(program) {
  const values = tensorsOf(program);

  // What a student says of a row: an array for each name, of outputs or classes; of mixtures, an array for each normal.
  function predict(x) {
    if (x.length !== program.numInputs) {
      throw new Error(`x must have ${program.numInputs} numbers, got ${x.length}; pass one for each column`);
    }
    const said = {};
    for (const [name, { shape, data }] of run(program, values, x)) {
      const mixed = program.mixed.includes(name) || name === "tail", K = mixed ? shape[0] : 1, P = data.length / K;
      const rows = Array.from({ length: K }, (_, k) => [...data.subarray(k * P, (k + 1) * P)]);
      said[name] = mixed ? rows : rows[0];
    }
    if (said.mean) said.std = said.mean.map((_, p) => Math.hypot(said.epistemic_std[p], said.aleatoric_std[p]));
    return said;
  }

  // Of one output: the weights, means and variances of normals, and what T is; T(y) = y if nothing is said of it.
  function distribution(said, j) {
    const mixture = program.mixed.map((name) => said[name].map((row) => row[j]));
    return [...mixture, said.tail ? said.tail.map((row) => row[j]) : [1, 0, 1, 0]];
  }

  // The density of one output at y.
  function density(said, y, j = 0) {
    const [weights, means, variances, tail] = distribution(said, j), t = shortened(y, tail);
    const normal = (k) => Math.exp(-0.5 * (t - means[k]) ** 2 / variances[k]) / Math.sqrt(2 * Math.PI * variances[k]);
    return slope(y, tail) * weights.reduce((sum, w, k) => sum + w * normal(k), 0);
  }

  // The central interval of each output that holds y with the probability `level`.
  function interval(said, level = 0.95) {
    const ends = (p) => said.mean.map((_, j) => {
      const [weights, means, variances, tail] = distribution(said, j);
      return lengthened(quantile(weights, means, variances, p), tail);
    });
    return { lower: ends((1 - level) / 2), upper: ends((1 + level) / 2) };
  }

  return { numInputs: program.numInputs, predict, interval, density };
}
