// What one looks at in a graph, and how that lights up: pure functions of a view and a state.

import { activeTrail } from "./model.mjs";

/**
 * @typedef {import("./model.mjs").Facts} Facts
 * @typedef {import("./shapes.mjs").Columns} Columns
 * @typedef {import("./shapes.mjs").Colours} Colours
 * @typedef {{nodes: Columns, edges: Columns, heads: Columns, plates: Columns, size: number[], facts: Facts,
 *   merged: Record<string, import("./forms.mjs").Merged>, closable: string[]}} View
 * @typedef {{hovered: string|null, selected: string|null, other: string|null, given: string[], found: string[],
 *   byLevel: boolean, fit: boolean|null, view: string, closed: string[], step: number}} State
 */

const FAINT = 0.32;
const GONE = 0.1;
const PARENT = "#0072b2";
const CHILD = "#d55e00";
const TRAIL = "#c2185b";

/** @returns {State} */
export function freshState(view = "folded") {
  return {
    hovered: null, selected: null, other: null, given: [], found: [], byLevel: false, fit: null, view, closed: [],
    step: 0,
  };
}

/** Another view of the graph, or other plates closed; what was chosen stays so where it is still there.
 * @param {State} old @param {string} view @param {string[]} [closed] @returns {State} */
export function turnedTo(old, view, closed = []) {
  return { ...freshState(view), byLevel: old.byLevel, fit: old.fit, selected: old.selected, step: old.step, closed };
}

/** The plates that are closed after a click on a plate's label, or on a node that stands for closed ones.
 * @param {View} view @param {string[]} closed @param {string} name @returns {string[]|null} null if nothing changes */
export function toggledPlate(view, closed, name) {
  if (view.closable.includes(name)) return [...closed, name];
  const shut = view.merged[name]?.shut ?? (closed.includes(name) ? [name] : []);
  const last = closed.findLast((p) => shut.includes(p));
  return last === undefined ? null : closed.filter((p) => p !== last);
}

/** What a click does that is no click on a node: closes a plate, at its label. @param {State} old @param {View} view
 * @param {number} x @param {number} y @returns {State|null} */
export function closedAt(old, view, x, y) {
  const plate = plateAt(view, x, y);
  const closed = plate === null ? null : toggledPlate(view, old.closed, plate);
  return closed && turnedTo(old, old.view, closed);
}

/** The node whose box holds the point, or null. @param {Facts} facts @param {number} x @param {number} y */
export function nodeAt(facts, x, y) {
  for (const [name, { box }] of Object.entries(facts)) {
    if (x >= box[0] && y >= box[1] && x <= box[2] && y <= box[3]) return name;
  }
  return null;
}

const LETTER = 7;
const LINE = 11;

/** The plate whose label is at the point, or null. @param {View} view
 * @param {number} x @param {number} y @returns {string|null} */
export function plateAt({ plates }, x, y) {
  const hit = plates.label.findIndex((words, i) => {
    const width = LETTER * words.length;
    const left = plates.label_x[i] - (plates.align[i] === "left" ? 0 : width);
    const up = y - plates.label_y[i];
    return x >= left - LETTER && x <= left + width + LETTER && up >= -LINE / 2 && up <= 1.5 * LINE;
  });
  return hit < 0 ? null : plates.name[hit];
}

/** What another node is to `name`: "self", "parent", "child", "co-parent" or "". In words, for each node.
 * @param {Facts} facts @param {string} name @param {string} other */
export function roleOf(facts, name, other) {
  const fact = facts[name];
  if (other === name) return "self";
  if (fact.parents.includes(other)) return "parent";
  if (fact.children.includes(other)) return "child";
  return fact.blanket.includes(other) ? "co-parent" : "";
}

/** Columns that depend on the state. `lit` marks exactly the Markov blanket of the hovered node.
 * @param {View} view @param {State} state @param {Colours} colours */
export function highlight(view, state, colours) {
  const { facts } = view;
  const centre = state.hovered ?? (state.other ? null : state.selected);
  const trail = state.other && state.selected ? activeTrail(facts, state.selected, state.other, state.given) : [];
  const pairs = new Set(trail.slice(1).flatMap((n, i) => [`${trail[i]}\n${n}`, `${n}\n${trail[i]}`]));
  const asked = new Set([state.selected, state.other, ...state.given, ...trail]);
  const roles = new Map(view.nodes.name.map((n) => [n, centre ? roleOf(facts, centre, n) : ""]));
  const found = new Set(state.found);
  /** @param {string} n */
  const on = (n) => {
    if (found.size) return found.has(n);
    if (centre) return roles.get(n) !== "";
    return state.other ? asked.has(n) : true;
  };
  const near = new Set(centre ? facts[centre].blanket : []);
  const lit = new Set(state.hovered ? facts[state.hovered].blanket : []);
  /** @param {string} n */
  const width = (n) => {
    if (n === centre || n === state.selected || n === state.other) return 3.4;
    if (state.step && facts[n].told.summed === state.step) return 3.4;
    return near.has(n) || state.given.includes(n) ? 2.6 : 1.6;
  };
  const names = view.nodes.name;
  /** @param {string} n */
  const look = (n) => (facts[n].told.summed ? "summed" : facts[n].kind);
  /** What is left of a node while sites are summed out step by step. @param {string} n */
  const left = (n) => {
    const { summed, near } = facts[n].told;
    if (!state.step || centre) return on(n) ? 1 : FAINT;
    if (summed && summed < state.step) return GONE;
    return summed === state.step || near?.includes(state.step) ? 1 : 0.5;
  };
  const ends = view.edges.start.map((a, i) => [a, view.edges.end[i]]);
  const colour = ends.map(([a, b]) => {
    if (pairs.has(`${a}\n${b}`)) return TRAIL;
    if (centre && b === centre) return PARENT;
    return centre && a === centre ? CHILD : colours.edge;
  });
  const alpha = ends.map(([a, b]) =>
    state.step && !centre ? Math.min(left(a), left(b)) : on(a) && on(b) ? 1 : FAINT * 0.7,
  );
  return {
    nodes: {
      alpha: names.map(left),
      width: names.map(width),
      lit: names.map((n) => (lit.has(n) ? 1 : 0)),
      role: names.map((n) => roles.get(n)),
      fill: names.map((n) => state.byLevel ? colours.level[facts[n].level] : colours.fill[look(n)]),
      line: names.map((n) => colours.line[look(n)]),
      dash: names.map((n, i) => (state.given.includes(n) ? [2, 2] : (colours.dash?.[look(n)] ?? view.nodes.dash[i]))),
    },
    edges: {
      alpha,
      colour,
      width: colour.map((c) => (c === colours.edge ? 1.4 : 2.6)),
    },
    heads: { alpha, colour },
  };
}

/** The words and the colour of a run's state on each node; a closed plate carries those of its worst member, and
 * how many are done. @param {View} view @param {Columns} run @param {string[]} ranks colours from good to bad
 * @returns {[string, string][]} */
export function badgesOf(view, run, ranks) {
  const names = run.name ?? [];
  const at = new Map([...names].map((n, i) => [n, i]));
  /** @param {string} n @returns {[string, string]|null} */
  const own = (n) => {
    const i = at.get(n);
    return i === undefined ? null : [run.words[i], run.colour[i]];
  };
  return view.nodes.name.map((n) => {
    const mine = own(n);
    if (mine) return mine;
    const inside = (view.merged[n]?.members ?? []).flatMap((m) => [own(m)].filter((b) => b !== null));
    if (inside.length < 2) return inside[0] ?? ["", ""];
    const done = inside.filter(([, colour]) => colour === ranks[0]).length;
    const [words, colour] = inside.reduce((a, b) => (ranks.indexOf(b[1]) > ranks.indexOf(a[1]) ? b : a));
    return [done === inside.length ? `✓ all ${done}` : `${words} · ${done} of ${inside.length} ✓`, colour];
  });
}

/** The step at which sites are summed out, in words. @param {State} state @param {string[]} steps */
export function stepWords(state, steps) {
  return state.step ? `Step ${state.step} of ${steps.length}: ${steps[state.step - 1]}` : "";
}

/** The answer to an independence question, in words. @param {Facts} facts @param {State} state */
export function answer(facts, state) {
  if (!state.selected || !state.other) return "";
  const trail = activeTrail(facts, state.selected, state.other, state.given);
  const given = ["the data", ...state.given].join(", ");
  const pair = `${state.selected} and ${state.other}`;
  if (!trail.length) return `${pair} are independent given ${given}.`;
  const closed = trail.some((n) => facts[n].kind === "plate");
  if (closed) return `${pair} may depend on each other given ${given}, through ${trail.join(" – ")}: open the plate.`;
  return `${pair} depend on each other given ${given}: through ${trail.join(" – ")}.`;
}

/** State after a click: Shift asks about a second node, Ctrl (or Alt) adds a node to what is given.
 * @param {State} state @param {string|null} name @param {{shift?: boolean, ctrl?: boolean, alt?: boolean}} keys
 * @returns {State} */
export function clicked(state, name, keys) {
  if (name === null) return { ...state, selected: null, other: null, given: [], found: [] };
  if (keys.shift && state.selected && name !== state.selected) {
    return { ...state, other: name, given: state.given.filter((n) => n !== name), found: [] };
  }
  if ((keys.ctrl || keys.alt) && state.selected && name !== state.selected && name !== state.other) {
    const given = state.given.includes(name) ? state.given.filter((n) => n !== name) : [...state.given, name];
    return { ...state, given };
  }
  return { ...state, selected: name, other: null, given: [], found: [] };
}

const DIRECTIONS = /** @type {Record<string, [number, number]>} */ ({
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, 1],
  ArrowDown: [0, -1],
});

/** The nearest node in an arrow key's direction, or `name` itself. Sideways distance counts double.
 * @param {Facts} facts @param {string} name @param {string} key */
export function neighbour(facts, name, key) {
  const [dx, dy] = DIRECTIONS[key];
  /** @param {number[]} box */
  const centre = (box) => [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
  const [x, y] = centre(facts[name].box);
  let best = name;
  let least = Infinity;
  for (const [other, { box }] of Object.entries(facts)) {
    const [u, v] = centre(box);
    const along = (u - x) * dx + (v - y) * dy;
    const aside = Math.abs((u - x) * dy) + Math.abs((v - y) * dx);
    if (along > 1 && along + 2 * aside < least) {
      best = other;
      least = along + 2 * aside;
    }
  }
  return best;
}
