// Horizontal places: nodes near the middle of their neighbours, at least so far apart as their widths and
// the plates around them ask for. A quadratic program under difference constraints, by projections in turn
// (Hildreth 1957), and one pass at the end that leaves no constraint violated.

/**
 * @typedef {import("./graph_layout.mjs").Rows} Rows
 * @typedef {[number, number, number]} Apart b - a >= d, as [a, b, d]
 */

export const GAP = { x: 26, y: 44, line: 8, pad: 14, label: 16, margin: 14, full: 1200, clear: 17 };
const ROUNDS = 40;
const SWEEPS_EACH = 12;
const LIGHT = 0.02; // the weight of a plate's border, which follows its members

/** An order in which every constraint goes forwards, or null if they go round in a circle.
 * @param {number} n @param {Apart[]} apart */
function ordered(n, apart) {
  const missing = Array(n).fill(0);
  /** @type {Apart[][]} */
  const out = Array.from({ length: n }, () => []);
  for (const c of apart) {
    out[c[0]].push(c);
    missing[c[1]]++;
  }
  const queue = [...missing.keys()].filter((i) => !missing[i]);
  for (const i of queue) for (const [, b] of out[i]) if (!--missing[b]) queue.push(b);
  return queue.length === n ? { queue, out } : null;
}

/** The point nearest to `wish` that the constraints allow, nearly. @param {number[]} wish @param {number[]} weight
 * @param {Apart[]} apart @param {number[]} multipliers */
function projected(wish, weight, apart, multipliers) {
  const x = [...wish];
  apart.forEach(([a, b], i) => {
    x[a] -= multipliers[i] / weight[a];
    x[b] += multipliers[i] / weight[b];
  });
  for (let sweep = 0; sweep < SWEEPS_EACH; sweep++) {
    apart.forEach(([a, b, d], i) => {
      const lack = (d - (x[b] - x[a])) / (1 / weight[a] + 1 / weight[b]);
      const step = Math.max(-multipliers[i], lack);
      multipliers[i] += step;
      x[a] -= step / weight[a];
      x[b] += step / weight[b];
    });
  }
  return x;
}

/** Constraints of three strengths: what always holds, plates clear of their neighbours in a row, and plates
 * clear of what is beside them in rows where they have no member. @param {Rows} laid @param {Map<string, number>} at */
function constraints({ rows, chains, around, width, plates, nodes, spans, rank }, at) {
  /** @param {string} n */
  const of = (n) => at.get(n) ?? -1;
  /** @param {string} p */
  const left = (p) => of(`\u0001${p}`);
  /** @param {string} p */
  const right = (p) => of(`\u0002${p}`);
  /** @param {string} n */
  const half = (n) => (width.get(n) ?? 0) / 2;
  /** @param {string} n */
  const plain = (n) => (around.get(n) ?? []).flat();
  /** @type {Apart[]} */
  const always = [];
  /** @type {Apart[]} */
  const beside = [];
  /** @type {Apart[]} */
  const outside = [];
  for (const n of nodes) {
    [...plain(n)].reverse().forEach((p, depth) => {
      const pad = half(n) + GAP.pad * (depth + 1);
      always.push([left(p), of(n), pad], [of(n), right(p), pad]);
    });
  }
  const labels = new Map(plates.map(({ name, size }) => [name, 7 * `${name}: ${size}`.length]));
  for (const [name, label] of labels) always.push([left(name), right(name), label + 2 * GAP.pad]);
  for (const { edge } of chains) {
    // The label stands clear of what leaves the plate through its lower edge.
    const [out, into] = edge.map(plain);
    for (const p of out) if (!into.includes(p)) always.push([of(edge[0]), right(p), (labels.get(p) ?? 0) + GAP.clear]);
  }
  const across = new Set();
  for (const levels of around.values()) {
    for (const ps of levels) for (const p of ps) for (const q of ps) across.add(`${p}\n${q}`);
  }
  const gaps = [GAP.line, 1.5 * GAP.line, GAP.x];
  for (const row of rows) {
    row.forEach((a, i) => {
      if (i) {
        const [b, c] = [row[i - 1], a];
        always.push([of(b), of(c), half(b) + half(c) + gaps[Number(nodes.has(b)) + Number(nodes.has(c))]]);
      }
      const mine = plain(a);
      for (const b of row.slice(i + 1)) {
        const theirs = plain(b);
        for (const p of theirs) if (!mine.includes(p)) beside.push([of(a), left(p), half(a) + GAP.x / 2]);
        for (const p of mine) if (!theirs.includes(p)) beside.push([right(p), of(b), half(b) + GAP.x / 2]);
        for (const p of mine) {
          for (const q of theirs) {
            const strange = !theirs.includes(p) && !mine.includes(q) && !across.has(`${p}\n${q}`);
            if (strange) beside.push([right(p), left(q), GAP.x / 2]);
          }
        }
      }
    });
  }
  for (const [p, [first, last]] of spans) {
    const members = [...nodes].filter((n) => plain(n).includes(p));
    const middle = members.reduce((sum, n) => sum + (rank.get(n) ?? 0), 0) / members.length;
    for (const row of rows.slice(first, last + 1)) {
      if (row.some((n) => plain(n).includes(p))) continue;
      for (const n of row) {
        const gap = half(n) + GAP.x / 2;
        outside.push((rank.get(n) ?? 0) < middle ? [of(n), left(p), gap] : [right(p), of(n), gap]);
      }
    }
  }
  return { always, beside, outside };
}

/** Horizontal places of nodes and place holders, and of the borders of plates.
 * @param {Rows} laid @returns {{x: Map<string, number>, bounds: Map<string, [number, number]>}} */
export function acrossOf(laid) {
  const { rows, chains, plates } = laid;
  const borders = plates.flatMap(({ name }) => [`\u0001${name}`, `\u0002${name}`]);
  const names = [...rows.flat(), ...borders];
  const at = new Map(names.map((n, i) => [n, i]));
  const { always, beside, outside } = constraints(laid, at);
  // Plates that lie across each other cannot all be kept clear of strangers: give up the least first.
  const tries = [[...always, ...beside, ...outside], [...always, ...beside], always];
  const apart = tries.find((wishes) => ordered(names.length, wishes) !== null) ?? always;
  const order = ordered(names.length, apart);
  if (order === null) throw new Error("places of a row that contradict each other");
  /** @type {[number, number][][]} */
  const near = names.map(() => []);
  for (const { edge, inner } of chains) {
    const path = [edge[0], ...inner, edge[1]].map((n) => at.get(n) ?? 0);
    path.slice(1).forEach((v, i) => {
      const weight = inner.length ? 4 : 1; // bent lines cost more
      near[path[i]].push([v, weight]);
      near[v].push([path[i], weight]);
    });
  }
  const weight = names.map((_, i) => (i < names.length - borders.length ? 1 : LIGHT));
  const multipliers = Array(apart.length).fill(0);
  /** @param {number[]} x */
  const repaired = (x) => {
    const out = [...x];
    for (const i of order.queue) for (const [a, b, d] of order.out[i]) out[b] = Math.max(out[b], out[a] + d);
    return out;
  };
  let x = repaired(names.map(() => 0));
  for (let round = 0; round < ROUNDS; round++) {
    const wish = x.map((v, i) => {
      const sum = near[i].reduce((s, [, w]) => s + w, 0);
      return sum ? (v + near[i].reduce((s, [j, w]) => s + w * x[j], 0) / sum) / 2 : v;
    });
    x = projected(wish, weight, apart, multipliers);
  }
  x = repaired(x);
  // The borders of plates close tightly around what they hold.
  const [lows, highs] = [names.map(() => -Infinity), names.map(() => Infinity)];
  plates.forEach(({ name }) => {
    const i = at.get(`\u0001${name}`) ?? 0;
    for (const [, b, d] of order.out[i]) highs[i] = Math.min(highs[i], x[b] - d);
    if (Number.isFinite(highs[i])) x[i] = highs[i];
  });
  for (const [a, b, d] of apart) lows[b] = Math.max(lows[b], x[a] + d);
  plates.forEach(({ name }) => {
    const i = at.get(`\u0002${name}`) ?? 0;
    if (Number.isFinite(lows[i])) x[i] = lows[i];
  });
  const place = new Map(names.map((n, i) => [n, x[i]]));
  return {
    x: place,
    bounds: new Map(
      plates.map(({ name }) => [name, [place.get(`\u0001${name}`) ?? 0, place.get(`\u0002${name}`) ?? 0]]),
    ),
  };
}
