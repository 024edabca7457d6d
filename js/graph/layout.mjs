// Places for a graph whose plates a person has closed: the layers and rows of gibbsite/graph/drawing/layout.py,
// begun from the places on the page, so that what stays keeps its side. Pixels; y grows downwards.

import { GAP, acrossOf } from "./across.mjs";

/**
 * @typedef {import("./graph_plates.mjs").Laid} Laid
 * @typedef {import("./graph_plates.mjs").Item} Item
 * @typedef {import("./graph_plates.mjs").Plate} Plate
 * @typedef {{edge: [string, string], inner: string[]}} Chain
 * @typedef {{rows: string[][], chains: Chain[], around: Map<string, string[][]>, width: Map<string, number>,
 *   plates: Plate[], nodes: Set<string>, spans: Map<string, [number, number]>, rank: Map<string, number>}} Rows
 * @typedef {{left: number, top: number, width: number, height: number}} Rect
 * @typedef {{width: number, height: number, x: number[], y: number[], points: number[][],
 *   boxes: Map<string, Rect>}} Placed
 */

const SWEEPS = 12;
const BESIDE_LOOP = 26;

/** @param {number[]} values */
const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;

/** Lexicographic order of lists of numbers and words. @param {any[]} a @param {any[]} b */
function compared(a, b) {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return a.length - b.length;
}

/** Layers by longest path; full ones pass nodes on to the next. @param {Laid} graph
 * @param {Map<string, number>} width @returns {Map<string, number>} */
export function layersOf({ items, edges }, width) {
  const pairs = edges.filter(([a, b]) => a !== b);
  const area = items.reduce((sum, { name, h }) => sum + ((width.get(name) ?? 0) + GAP.x) * (h + GAP.y), 0);
  const full = Math.max(GAP.full, 1.25 * Math.sqrt(area));
  /** @type {Map<string, string[]>} */
  const parents = new Map(items.map(({ name }) => [name, []]));
  /** @type {Map<string, string[]>} */
  const children = new Map(items.map(({ name }) => [name, []]));
  for (const [a, b] of pairs) {
    parents.get(b)?.push(a);
    children.get(a)?.push(b);
  }
  const missing = new Map([...parents].map(([n, ps]) => [n, ps.length]));
  const queue = items.map(({ name }) => name).filter((n) => !missing.get(n));
  /** @type {Map<string, number>} */
  const layer = new Map();
  /** @type {Map<number, number>} */
  const room = new Map();
  /** @param {string} n @param {number} k @param {number} sign */
  const take = (n, k, sign) => room.set(k, (room.get(k) ?? 0) + sign * ((width.get(n) ?? 0) + GAP.x));
  /** @param {string} n @param {number} k */
  const fits = (n, k) => (room.get(k) ?? 0) + (width.get(n) ?? 0) + GAP.x <= full;
  for (const n of queue) {
    let k = Math.max(0, ...(parents.get(n) ?? []).map((p) => (layer.get(p) ?? 0) + 1));
    while (room.get(k) && !fits(n, k)) k++;
    layer.set(n, k);
    take(n, k, 1);
    for (const c of children.get(n) ?? []) {
      missing.set(c, (missing.get(c) ?? 0) - 1);
      if (missing.get(c) === 0) queue.push(c);
    }
  }
  for (const { name } of items) {
    const below = (children.get(name) ?? []).map((c) => layer.get(c) ?? 0);
    if (!below.length || parents.get(name)?.length) continue;
    const k = Math.min(...below) - 1; // roots stand right above what reads them
    if (k !== layer.get(name) && fits(name, k)) {
      take(name, layer.get(name) ?? 0, -1);
      take(name, k, 1);
      layer.set(name, k);
    }
  }
  const used = [...new Set(layer.values())].sort((a, b) => a - b);
  return new Map([...layer].map(([n, k]) => [n, used.indexOf(k)]));
}

/** Per node its plates, outermost first; plates of one depth, which lie across each other, stand together.
 * @param {Laid} graph @returns {Map<string, string[][]>} */
function aroundOf({ items, plates }) {
  const parent = new Map(plates.map((p) => [p.name, p.parent]));
  /** @param {string} name @returns {string[]} */
  const path = (name) => {
    const up = parent.get(name);
    return up && parent.has(up) ? [...path(up), name] : [name];
  };
  return new Map(
    items.map((item) => {
      const all = new Set(item.plates.filter((p) => parent.has(p)).flatMap(path));
      /** @type {string[][]} */
      const levels = [];
      for (const p of all) (levels[path(p).length - 1] ??= []).push(p);
      return [item.name, levels.filter(Boolean).map((level) => level.sort())];
    }),
  );
}

/** How many edges cross between rows. @param {string[][]} rows @param {Map<string, string[]>} near */
function crossingsOf(rows, near) {
  let total = 0;
  for (let k = 0; k + 1 < rows.length; k++) {
    const at = new Map(rows[k + 1].map((n, i) => [n, i]));
    const ends = rows[k].flatMap((n) =>
      (near.get(n) ?? []).flatMap((m) => at.get(m) ?? []).sort((a, b) => a - b),
    );
    ends.forEach((a, i) => (total += ends.slice(0, i).filter((b) => b > a).length));
  }
  return total;
}

/** Plates that hang together by lying across each other, by one of their names. @param {Map<string, string[][]>} around
 * @param {Plate[]} plates */
function clustersOf(around, plates) {
  const own = new Map(plates.map(({ name }) => [name, name]));
  for (const levels of around.values()) {
    for (const [first, ...others] of levels) {
      for (const p of others) {
        const [keep, drop] = [own.get(first), own.get(p)];
        if (keep === undefined) continue;
        for (const [q, c] of own) if (c === drop) own.set(q, keep);
      }
    }
  }
  return own;
}

/** Nodes and the place holders of edges that pass through, row by row, in an order with few crossings.
 * @param {Laid} graph @param {Map<string, number>} width @returns {Rows} */
export function rowsOf(graph, width) {
  const { items, edges, plates } = graph;
  const layer = layersOf(graph, width);
  const around = aroundOf(graph);
  /** @type {string[][]} */
  const rows = Array.from({ length: Math.max(...layer.values()) + 1 }, () => []);
  /** @type {Map<string, string[]>} */
  const near = new Map();
  /** @type {Map<string, number>} */
  const rank = new Map();
  const level = new Map(layer);
  for (const { name, x } of items) {
    rows[layer.get(name) ?? 0].push(name);
    near.set(name, []);
    rank.set(name, x);
  }
  const chains = edges
    .filter(([a, b]) => a !== b)
    .map(([a, b]) => {
      const [first, last] = [layer.get(a) ?? 0, layer.get(b) ?? 0];
      const inner = Array.from({ length: last - first - 1 }, (_, k) => `${a}→${b}@${first + 1 + k}`);
      const [xa, xb] = [rank.get(a) ?? 0, rank.get(b) ?? 0];
      inner.forEach((d, k) => {
        rows[first + 1 + k].push(d);
        level.set(d, first + 1 + k);
        near.set(d, []);
        rank.set(d, xa + ((xb - xa) * (k + 1)) / (last - first));
        width.set(d, 4);
      });
      [a, ...inner].forEach((u, i) => {
        const v = [...inner, b][i];
        near.get(u)?.push(v);
        near.get(v)?.push(u);
      });
      return { edge: /** @type {[string, string]} */ ([a, b]), inner };
    });
  const cluster = clustersOf(around, plates);
  const members = new Map(
    plates.map(({ name }) => [name, items.map((i) => i.name).filter((n) => around.get(n)?.flat().includes(name))]),
  );
  /** @param {string[]} row @param {(n: string) => number} wish */
  const sort = (row, wish) => {
    const middle = new Map([...members].map(([p, ns]) => [p, ns.length ? mean(ns.map((n) => rank.get(n) ?? 0)) : 0]));
    /** @param {string} c */
    const together = (c) => mean([...middle].filter(([p]) => cluster.get(p) === c).map(([, v]) => v));
    const key = new Map(
      row.map((n) => {
        const parts = (around.get(n) ?? []).flatMap((ps) => {
          const c = cluster.get(ps[0]) ?? ps[0];
          return [together(c), c, mean(ps.map((p) => middle.get(p) ?? 0)), ps.join(" ")];
        });
        return [n, [...parts, wish(n), n]];
      }),
    );
    row.sort((a, b) => compared(key.get(a) ?? [], key.get(b) ?? []));
  };
  const settle = () => {
    for (const row of rows) row.forEach((n, i) => rank.set(n, i - (row.length - 1) / 2));
  };
  for (const row of rows) sort(row, (n) => rank.get(n) ?? 0);
  settle();
  let best = rows.map((row) => [...row]);
  let fewest = crossingsOf(rows, near);
  for (let sweep = 0; sweep < SWEEPS && fewest; sweep++) {
    const side = sweep % 2 ? 1 : -1;
    const order = side < 0 ? rows : [...rows].reverse();
    for (const row of order) {
      sort(row, (n) => {
        const there = (near.get(n) ?? []).filter((m) => level.get(m) === (level.get(n) ?? 0) + side);
        return there.length ? mean(there.map((m) => rank.get(m) ?? 0)) : (rank.get(n) ?? 0);
      });
      row.forEach((n, i) => rank.set(n, i - (row.length - 1) / 2));
    }
    const crossings = crossingsOf(rows, near);
    if (crossings < fewest) [best, fewest] = [rows.map((row) => [...row]), crossings];
  }
  best.forEach((row) => row.forEach((n, i) => rank.set(n, i - (row.length - 1) / 2)));
  /** @type {Map<string, [number, number]>} */
  const spans = new Map();
  for (const { name } of plates) {
    const at = (members.get(name) ?? []).map((n) => layer.get(n) ?? 0);
    if (at.length) spans.set(name, [Math.min(...at), Math.max(...at)]);
  }
  return { rows: best, chains, around, width, plates, nodes: new Set(items.map((i) => i.name)), spans, rank };
}

/** Vertical place of every row; plates that begin or end between rows get room. @param {Rows} laid
 * @param {Map<string, number>} height */
function downOf({ rows, spans }, height) {
  let at = 0;
  return rows.map((row, i) => {
    const tall = Math.max(...row.map((n) => height.get(n) ?? 0));
    const starts = [...spans.values()].filter(([first]) => first === i).length;
    const ends = [...spans.values()].filter(([, last]) => last === i - 1).length;
    at += (i ? GAP.y : 0) + GAP.pad * starts + (GAP.pad + GAP.label) * ends * 0.6;
    const middle = at + tall / 2;
    at += tall;
    return middle;
  });
}

/** @param {Laid} graph @param {Rows} rows @param {Map<string, Rect>} nodes
 * @param {Map<string, [number, number]>} bounds @returns {Map<string, Rect>} */
function plateBoxes({ plates }, { around }, nodes, bounds) {
  const cluster = clustersOf(around, plates);
  /** @type {Map<string, Rect>} */
  const out = new Map();
  /** @param {string} name @returns {Rect|undefined} */
  const box = (name) => {
    if (out.has(name)) return out.get(name);
    const inner = [...nodes].filter(([n]) => around.get(n)?.flat().includes(name)).map(([, b]) => b);
    for (const child of plates.filter((p) => p.parent === name)) {
      const b = box(child.name);
      if (b) inner.push(b);
    }
    const [left, right] = bounds.get(name) ?? [0, 0];
    if (!inner.length) return undefined;
    const mates = plates.map((p) => p.name).filter((p) => cluster.get(p) === cluster.get(name)).sort();
    const more = 9 * (mates.indexOf(name) % 3); // borders of plates that cross do not fall on each other
    const top = Math.min(...inner.map((b) => b.top)) - GAP.pad - more;
    const low = Math.max(...inner.map((b) => b.top + b.height)) + GAP.pad + GAP.label + more;
    out.set(name, { left, top, width: right - left, height: low - top });
    return out.get(name);
  };
  for (const { name } of plates) box(name);
  return out;
}

/** From the lower edge of `a` to the upper edge of `b`, leaning towards where it goes.
 * @param {Rect} a @param {Rect} b @param {[number, number][]} between */
function edgePoints(a, b, between) {
  /** @param {Rect} r */
  const centre = (r) => r.left + r.width / 2;
  /** @param {number} v @param {number} most */
  const within = (v, most) => Math.max(-most, Math.min(most, v));
  const first = between.length ? between[0][0] : centre(b);
  const last = between.length ? between[between.length - 1][0] : centre(a);
  const start = centre(a) + within((first - centre(a)) * 0.25, a.width * 0.3);
  const end = centre(b) + within((last - centre(b)) * 0.25, b.width * 0.3);
  return [[start, a.top + a.height], ...between, [end, b.top]];
}

/** Lay out a graph of at least one node. @param {Laid} graph @returns {Placed} */
export function placed(graph) {
  const { items, edges } = graph;
  const loops = new Set(edges.filter(([a, b]) => a === b).map(([a]) => a));
  const width = new Map(items.map(({ name, w }) => [name, w + (loops.has(name) ? 2 * BESIDE_LOOP : 0)]));
  const height = new Map(items.map(({ name, h }) => [name, h]));
  const laid = rowsOf(graph, width);
  const { x, bounds } = acrossOf(laid);
  const y = downOf(laid, height);
  /** @type {Map<string, Rect>} */
  const nodes = new Map();
  /** @type {Map<string, [number, number][]>} */
  const through = new Map();
  laid.rows.forEach((row, i) => {
    const half = Math.max(...row.map((n) => height.get(n) ?? 0)) / 2;
    for (const n of row) {
      const [cx, w, h] = [x.get(n) ?? 0, width.get(n) ?? 0, height.get(n) ?? 0];
      if (laid.nodes.has(n)) nodes.set(n, { left: cx - w / 2, top: y[i] - h / 2, width: w, height: h });
      through.set(n, [[cx, y[i] - half], [cx, y[i] + half]]); // upright, so that it cuts no neighbour's corner
    }
  });
  const boxes = plateBoxes(graph, laid, nodes, bounds);
  const all = [...nodes.values(), ...boxes.values()];
  const dx = GAP.margin - Math.min(...all.map((b) => b.left));
  const dy = GAP.margin - Math.min(...all.map((b) => b.top));
  for (const b of all) {
    b.left += dx;
    b.top += dy;
  }
  const points = new Map(
    laid.chains.map(({ edge: [a, b], inner }) => {
      const between = inner.flatMap((d) => through.get(d) ?? []);
      const moved = between.map(([u, v]) => /** @type {[number, number]} */ ([u + dx, v + dy]));
      const ends = [nodes.get(a), nodes.get(b)];
      const line = ends[0] && ends[1] ? edgePoints(ends[0], ends[1], moved) : [];
      return [`${a}\n${b}`, line.flat()];
    }),
  );
  /** @param {string} n */
  const rect = (n) => nodes.get(n) ?? { left: 0, top: 0, width: 0, height: 0 };
  return {
    width: Math.max(...all.map((b) => b.left + b.width)) + GAP.margin,
    height: Math.max(...all.map((b) => b.top + b.height)) + GAP.margin,
    x: items.map(({ name }) => rect(name).left + rect(name).width / 2),
    y: items.map(({ name }) => rect(name).top + rect(name).height / 2),
    points: edges.map((edge) => points.get(edge.join("\n")) ?? []),
    boxes,
  };
}
