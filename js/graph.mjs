// What happens on the drawing of a graph: hovering lights a node, its Markov blanket and the edges between
// them; a click shows the node's panel; a second node, with Shift, asks whether the two are independent.
// Runs as a Bokeh CustomJS, in a notebook and in an exported page: nothing here needs a kernel.
//
// Everything that can be shown is in the data source "graph-store", as one JSON text: two views of the graph
// (folded and open), each with its columns and with facts about its nodes. Python replaces the text when the
// model changes.

/**
 * @typedef {{kind: string, level: string, parents: string[], children: string[], blanket: string[],
 *   box: number[], panel: string, kernels: string[], kernel: string, folded: boolean}} Fact
 * @typedef {Record<string, Fact>} Facts
 * @typedef {Record<string, any[]>} Columns
 * @typedef {{nodes: Columns, edges: Columns, heads: Columns, plates: Columns, size: number[], facts: Facts}} View
 * @typedef {{views: {folded: View, open?: View}, colours: Record<string, Record<string, string>>}} Store
 * @typedef {{hovered: string|null, selected: string|null, other: string|null, given: string[], found: string[],
 *   byLevel: boolean, open: boolean}} State
 */

const FAINT = 0.22;
const PARENT = "#0072b2";
const CHILD = "#d55e00";
const TRAIL = "#c2185b";

/** @returns {State} */
export function freshState() {
  return { hovered: null, selected: null, other: null, given: [], found: [], byLevel: false, open: false };
}

/** The node whose box holds the point, or null. @param {Facts} facts @param {number} x @param {number} y */
export function nodeAt(facts, x, y) {
  for (const [name, { box }] of Object.entries(facts)) {
    if (x >= box[0] && y >= box[1] && x <= box[2] && y <= box[3]) return name;
  }
  return null;
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

/** A trail from `a` to `b` that `given` leaves open, or [] if they are d-separated (Shachter's Bayes-ball).
 * Observed sites and factors count as given, as in a posterior.
 * @param {Facts} facts @param {string} a @param {string} b @param {string[]} given @returns {string[]} */
export function activeTrail(facts, a, b, given) {
  if (a === b) return [a];
  const fixed = new Set(given);
  for (const [n, { kind }] of Object.entries(facts)) if (kind === "observed" || kind === "factor") fixed.add(n);
  fixed.delete(a);
  fixed.delete(b);
  const opened = new Set(fixed);
  const stack = [...fixed];
  while (stack.length) {
    for (const p of facts[/** @type {string} */ (stack.pop())].parents) {
      if (!opened.has(p)) {
        opened.add(p);
        stack.push(p);
      }
    }
  }
  /** @type {{node: string, up: boolean, from: any}[]} */
  const queue = [{ node: a, up: true, from: null }];
  const seen = new Set([`u${a}`]);
  for (let at = 0; at < queue.length; at++) {
    const state = queue[at];
    const { node, up } = state;
    if (node === b) {
      const trail = [];
      for (let s = state; s !== null; s = s.from) trail.push(s.node);
      return trail.reverse();
    }
    const { parents, children } = facts[node];
    /** @type {[string, boolean][]} */
    const steps = [];
    if (up ? !fixed.has(node) : opened.has(node)) for (const p of parents) steps.push([p, true]);
    if (!fixed.has(node)) for (const c of children) steps.push([c, false]);
    for (const [n, goingUp] of steps) {
      const key = (goingUp ? "u" : "d") + n;
      if (seen.has(key)) continue;
      seen.add(key);
      queue.push({ node: n, up: goingUp, from: state });
    }
  }
  return [];
}

/** Nodes whose name contains the words, exact names first. @param {Facts} facts @param {string} words */
export function search(facts, words) {
  const text = words.trim().toLowerCase();
  if (!text) return [];
  const names = Object.keys(facts).filter((n) => n.toLowerCase().includes(text));
  return names.sort((a, b) => Number(b.toLowerCase() === text) - Number(a.toLowerCase() === text));
}

/** Columns that depend on the state. `lit` marks exactly the Markov blanket of the hovered node.
 * @param {View} view @param {State} state @param {Store["colours"]} colours */
export function highlight(view, state, colours) {
  const { facts } = view;
  const centre = state.hovered ?? (state.other ? null : state.selected);
  const trail = state.other && state.selected ? activeTrail(facts, state.selected, state.other, state.given) : [];
  const pairs = new Set(trail.slice(1).flatMap((n, i) => [`${trail[i]}\n${n}`, `${n}\n${trail[i]}`]));
  const asked = new Set([state.selected, state.other, ...state.given, ...trail]);
  /** @param {string} n */
  const on = (n) => {
    if (state.found.length) return state.found.includes(n);
    if (centre) return roleOf(facts, centre, n) !== "";
    return state.other ? asked.has(n) : true;
  };
  /** @param {string} n */
  const width = (n) => {
    if (n === centre || n === state.selected || n === state.other) return 3.4;
    return centre && facts[centre].blanket.includes(n) ? 2.6 : state.given.includes(n) ? 2.6 : 1.6;
  };
  const names = view.nodes.name;
  const ends = view.edges.start.map((a, i) => [a, view.edges.end[i]]);
  const colour = ends.map(([a, b]) => {
    if (pairs.has(`${a}\n${b}`)) return TRAIL;
    if (centre && b === centre) return PARENT;
    return centre && a === centre ? CHILD : "#6b7680";
  });
  const alpha = ends.map(([a, b]) => (on(a) && on(b) ? 1 : FAINT * 0.7));
  return {
    nodes: {
      alpha: names.map((n) => (on(n) ? 1 : FAINT)),
      width: names.map(width),
      lit: names.map((n) => (state.hovered && facts[state.hovered].blanket.includes(n) ? 1 : 0)),
      role: names.map((n) => (centre ? roleOf(facts, centre, n) : "")),
      fill: names.map((n, i) => (state.byLevel ? colours.level[facts[n].level] : view.nodes.fill[i])),
      dash: names.map((n, i) => (state.given.includes(n) ? [2, 2] : view.nodes.dash[i])),
    },
    edges: {
      alpha,
      colour,
      width: ends.map((_, i) => (colour[i] === "#6b7680" ? 1.4 : 2.6)),
    },
    heads: { alpha, colour },
  };
}

/** @param {string} text */
function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

/** The answer to an independence question, in words. @param {Facts} facts @param {State} state */
export function answer(facts, state) {
  if (!state.selected || !state.other) return "";
  const trail = activeTrail(facts, state.selected, state.other, state.given);
  const given = ["the data", ...state.given].join(", ");
  const pair = `${state.selected} and ${state.other}`;
  if (!trail.length) return `${pair} are independent given ${given}.`;
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

// ------------------------------------------------------------------ in the page

/** The first store leaves out the columns that the page already draws: they are taken from there, once.
 * @param {Store} store @param {any} args */
function completed(store, args) {
  const { folded } = store.views;
  if (folded.nodes === undefined) {
    for (const part of /** @type {const} */ (["nodes", "edges", "heads", "plates"])) {
      folded[part] = { ...args[part].data };
    }
  }
  return store;
}

/** @param {any} args @param {State} state @param {Store} store */
function viewOf(args, state, store) {
  return state.open && store.views.open ? store.views.open : store.views.folded;
}

/** @param {any} args @param {State} state @param {Store} store @param {boolean} whole */
function paint(args, state, store, whole) {
  const view = viewOf(args, state, store);
  const next = highlight(view, state, store.colours);
  if (whole) {
    args.plates.data = view.plates;
    const { plot } = args;
    plot.x_range.setv({ start: 0, end: view.size[0] });
    plot.y_range.setv({ start: -view.size[1], end: 0 });
    plot.setv({ width: view.size[2], height: view.size[3] });
    args.title.glyph.setv({ text_font_size: `${view.size[4]}px` });
    args.words.glyph.setv({ text_font_size: `${view.size[5]}px` });
  }
  const run = args.run.data;
  const at = new Map([...run.name].map((n, i) => [n, i]));
  /** @param {string} n @param {any[]} column @param {string} none */
  const told = (n, column, none) => column[at.get(n) ?? -1] ?? none;
  const badge = view.nodes.name.map((n) => told(n, run.words, ""));
  const tint = view.nodes.name.map((n) => told(n, run.colour, "#6b7680"));
  args.nodes.data = { ...view.nodes, ...next.nodes, badge, tint };
  args.edges.data = { ...view.edges, ...next.edges };
  args.heads.data = { ...view.heads, ...next.heads };
}

/** @param {any} args @param {State} state @param {Store} store */
function tell(args, state, store) {
  const { facts } = viewOf(args, state, store);
  const name = state.selected;
  const live = Boolean(args.plot.document?.gibbsite);
  const told = answer(facts, state);
  const reply = told ? `<div class="gp" role="status"><p class="ask">${escaped(told)}</p></div>` : "";
  const shown = name !== null && facts[name] ? facts[name].panel : args.hint;
  args.panel.text = args.style + reply + shown;
  const fact = name === null ? undefined : facts[name];
  // What was intervened on is deterministic now: Undo must stay in reach.
  const fits = fact ? /latent|observed|deterministic/.test(fact.kind) : args.change.visible;
  args.change.visible = Boolean(live && args.changeable && fits);
  if (fact) {
    args.kernel.setv({ options: fact.kernels, value: fact.kernel, disabled: !fact.kernels.length });
  }
}

/** @param {any} args @param {any} source */
export default function react(args, source) {
  const { plot } = args;
  const text = args.store.data.json[0];
  if (plot.gibbsiteText !== text) {
    plot.gibbsiteText = text;
    plot.gibbsiteStore = completed(JSON.parse(text), args);
    plot.gibbsiteState ??= freshState();
  }
  /** @type {Store} */
  const store = plot.gibbsiteStore;
  /** @type {State} */
  const old = plot.gibbsiteState;
  const { facts } = viewOf(args, old, store);
  let state = old;
  let whole = false;
  const event = source.event_name;
  if (event === "mousemove" || event === "mouseleave") {
    state = { ...old, hovered: event === "mouseleave" ? null : nodeAt(facts, source.x, source.y) };
    if (state.hovered === old.hovered) return;
  } else if (event === "tap") {
    state = clicked(old, nodeAt(facts, source.x, source.y), source.modifiers ?? {});
  } else if (event === "doubletap") {
    const name = nodeAt(facts, source.x, source.y);
    if (name !== null && facts[name].folded) args.fold.setv({ active: true });
    return;
  } else if (source.name === "graph-search") {
    const found = search(facts, source.value_input ?? source.value);
    state = { ...old, found, selected: found.length === 1 ? found[0] : old.selected };
  } else if (source.name === "graph-colour") {
    state = { ...old, byLevel: source.active === 1 };
  } else if (source.name === "graph-fold") {
    state = { ...freshState(), byLevel: old.byLevel, open: source.active };
    source.setv({ label: source.active ? "fold" : "unfold" });
    whole = true;
  } else if (source.name === "graph-store") {
    const kept = facts[old.selected ?? ""] ? old.selected : null;
    state = { ...freshState(), byLevel: old.byLevel, open: old.open, selected: kept };
    args.fold.setv({ visible: store.views.open !== undefined });
    whole = true;
  }
  plot.gibbsiteState = state;
  paint(args, state, store, whole);
  if (state.selected !== old.selected || state.other !== old.other || state.given !== old.given || whole) {
    tell(args, state, store);
    if (state.selected !== old.selected) plot.document?.gibbsite?.("select", { node: state.selected });
  }
}
