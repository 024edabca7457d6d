// A view of the graph with plates closed, in the form in which Python sends the views.

import { placed } from "./layout.mjs";
import { closable, closedGraph } from "./plates.mjs";
import { smooth } from "./shapes.mjs";

/**
 * @typedef {import("./graph_model.mjs").Told} Told
 * @typedef {import("./graph_plates.mjs").Item} Item
 * @typedef {import("./graph_plates.mjs").Laid} Laid
 * @typedef {import("./graph_layout.mjs").Rect} Rect
 * @typedef {{nodes: import("./graph_shapes.mjs").Places, edges: import("./graph_shapes.mjs").Lines,
 *   plates: import("./graph_shapes.mjs").Columns, size: number[]}} Sent
 * @typedef {{shut: string[], members: string[]}} Merged
 */

const [MOST_WIDE, LEAST_SCALE, TITLE_PX, TEXT_PX] = [980, 0.82, 14, 11]; // as in gibbsite/views/graph/store.py
const MOST_STANDS = 8;

/** An object without JavaScript's own names in it. @template T @param {[string, T][]} entries
 * @returns {Record<string, T>} */
function byName(entries) {
  return Object.assign(Object.create(null), Object.fromEntries(entries));
}

/** What Python sent, as items and edges by name. @param {Sent} sent @param {Record<string, Told>} told @returns {Laid} */
export function laidOf({ nodes, edges, plates }, told) {
  const items = nodes.name.map((name, i) => ({
    name,
    kind: nodes.kind[i],
    discrete: nodes.discrete[i] === 1,
    w: nodes.w[i],
    h: nodes.h[i],
    title: nodes.title[i],
    text: nodes.text[i],
    x: nodes.x[i],
    plates: told[name]?.plates ?? [],
    within: told[name]?.plates ?? [],
    shape: told[name]?.shape ?? [],
    members: [name],
    shut: [],
  }));
  return {
    items,
    edges: edges.start.map((a, i) => [nodes.name[a], nodes.name[edges.end[i]]]),
    plates: (plates.name ?? []).map((name, i) => ({ name, size: plates.plate_size[i], parent: plates.parent[i] || null })),
  };
}

/** Whether two boxes overlap though neither is inside the other. @param {Rect} a @param {Rect} b */
function cuts(a, b) {
  const aside = a.left >= b.left + b.width || b.left >= a.left + a.width;
  const apart = aside || a.top >= b.top + b.height || b.top >= a.top + a.height;
  /** @param {Rect} p @param {Rect} q */
  const inside = (p, q) =>
    q.left <= p.left && q.top <= p.top && p.left + p.width <= q.left + q.width && p.top + p.height <= q.top + q.height;
  return !apart && !inside(a, b) && !inside(b, a);
}

/** Boxes and labels as columns; a label stands at the right, or at the left if something lies across the right.
 * @param {Laid} graph @param {Map<string, Rect>} boxes @param {number[][]} points */
function plateColumns(graph, boxes, points) {
  const fine = points.flatMap((flat) => {
    /** @type {[number, number][]} */
    const line = [];
    for (let k = 0; k < flat.length; k += 2) line.push([flat[k], flat[k + 1]]);
    return smooth(line, 24);
  });
  const shown = graph.plates.filter((p) => boxes.has(p.name));
  /** @type {Record<string, any[]>} */
  const columns = {
    name: [], x: [], y: [], width: [], height: [], label_x: [], label_y: [], label: [], align: [], plate_size: [],
    parent: [],
  };
  for (const { name, size, parent } of shown) {
    const box = /** @type {Rect} */ (boxes.get(name));
    const others = [...boxes].filter(([n]) => n !== name).map(([, b]) => b);
    const words = `${name}: ${size}`;
    const wide = 7 * words.length;
    const y = box.top + box.height - 8;
    const [left, right] = [box.left + 10, box.left + box.width - 10];
    /** @param {number} low @param {number} high */
    const crossed = (low, high) =>
      others.some((b) => low < b.left + b.width && b.left < high && cuts(b, box)) ||
      fine.some(([px, py]) => low - 6 < px && px < high + 6 && y - 16 < py && py < y + 6);
    const atLeft = crossed(right - wide, right) && !crossed(left, left + wide);
    const row = {
      name,
      x: box.left,
      y: -box.top - box.height,
      width: box.width,
      height: box.height,
      label_x: atLeft ? left : right,
      label_y: -y,
      label: words,
      align: atLeft ? "left" : "right",
      plate_size: size,
      parent: parent ?? "",
    };
    for (const [key, value] of Object.entries(row)) columns[key].push(value);
  }
  return columns;
}

/** What there is to tell of a closed plate. @param {Item} item @param {Record<string, Told>} told @returns {Told} */
function toldOf(item, told) {
  const members = item.members.flatMap((n) => told[n]?.stands ?? [n]);
  const more = members.length - MOST_STANDS;
  const kernels = item.members.filter((n) => told[n]?.kernel).map((n) => `${n} by ${told[n].kernel}`);
  return {
    discrete: item.discrete,
    shape: item.shape,
    plates: item.plates,
    plate: true,
    stands: [...members.slice(0, MOST_STANDS), ...(more > 0 ? [`${more} more`] : [])],
    updates: kernels.slice(0, MOST_STANDS).join(", ") + (kernels.length > MOST_STANDS ? ", …" : ""),
  };
}

/** A view with plates closed: its columns, what to tell of its new nodes, which plates each of them stands for,
 * and which plates can still be closed. @param {Sent} sent @param {Record<string, Told>} told
 * @param {string[]} closed
 * @returns {{sent: Sent, told: Record<string, Told>, merged: Record<string, Merged>, closable: string[]}} */
export function withClosed(sent, told, closed) {
  const whole = laidOf(sent, told);
  if (!closed.length) return { sent, told: byName([]), merged: byName([]), closable: closable(whole) };
  const graph = closedGraph(whole, closed);
  const at = placed(graph);
  const index = new Map(graph.items.map(({ name }, i) => [name, i]));
  const fresh = graph.items.filter((item) => item.shut.length);
  const scale = Math.max(Math.min(1, MOST_WIDE / at.width), LEAST_SCALE);
  /** @template T @param {(item: Item) => T} get */
  const column = (get) => graph.items.map(get);
  return {
    sent: {
      nodes: {
        name: column((i) => i.name),
        kind: column((i) => i.kind),
        discrete: column((i) => Number(i.discrete)),
        x: at.x,
        y: at.y,
        w: column((i) => i.w),
        h: column((i) => i.h),
        title: column((i) => i.title),
        text: column((i) => i.text),
      },
      edges: {
        start: graph.edges.map(([a]) => index.get(a) ?? 0),
        end: graph.edges.map(([, b]) => index.get(b) ?? 0),
        points: at.points,
      },
      plates: plateColumns(graph, at.boxes, at.points),
      size: [at.width, at.height, at.width * scale, at.height * scale, TITLE_PX * scale, TEXT_PX * scale],
    },
    told: byName(fresh.map((item) => [item.name, toldOf(item, told)])),
    merged: byName(fresh.map(({ name, shut, members }) => [name, { shut, members }])),
    closable: closable(graph),
  };
}
