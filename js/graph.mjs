// What happens on the drawing of a graph: hovering lights a node, its Markov blanket and the edges between
// them; a click shows the node's panel; a second node, with Shift, asks whether the two are independent.
// Runs as a Bokeh CustomJS, in a notebook and in an exported page: nothing here needs a kernel.
//
// Everything that can be shown is in the data source "graph-store", as compressed JSON: the views of the graph
// (overview, folded, open) with the places of their nodes and edges, and what there is to tell of each node.
// Python replaces the text when the model changes.

import { layKeys, labelKeys } from "./graph_keys.mjs";
import { blanketOf, joined, levelsOf, search } from "./graph_model.mjs";
import { panelHtml, panelOf } from "./graph_panel.mjs";
import { boxOf, columnsOf } from "./graph_shapes.mjs";
import { answer, clicked, freshState, highlight, nodeAt, plateAt } from "./graph_state.mjs";

/**
 * @typedef {import("./graph_model.mjs").Facts} Facts
 * @typedef {import("./graph_model.mjs").Told} Told
 * @typedef {import("./graph_shapes.mjs").Colours} Colours
 * @typedef {import("./graph_state.mjs").State} State
 * @typedef {import("./graph_state.mjs").View} View
 * @typedef {{nodes: import("./graph_shapes.mjs").Places, edges: import("./graph_shapes.mjs").Lines,
 *   plates: import("./graph_shapes.mjs").Columns, size: number[]}} Sent
 * @typedef {{views: Record<string, Sent>, start: string, told: Record<string, Told>, colours: Colours}} Store
 */

const LABELS = /** @type {Record<string, string>} */ ({
  overview: "overview", plates: "plates closed", folded: "folded", open: "all",
});
const FIT = [980, 700];
const LEAST_TEXT = 5;

/** @param {string} text base64 of zlib @returns {Promise<Store>} */
export async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** One way of showing the graph, with all that follows from its edges. @param {Store} store @param {string} name
 * @returns {View} */
export function viewOf(store, name) {
  const sent = store.views[name];
  const { nodes, edges } = sent;
  const graph = joined(nodes.name, nodes.kind, edges.start, edges.end);
  const levels = levelsOf(graph);
  /** @type {Facts} */
  const facts = Object.create(null);
  nodes.name.forEach((n, i) => {
    /** @type {string[]|undefined} */
    let blanket;
    facts[n] = {
      ...graph[n],
      level: levels[n],
      box: boxOf(nodes, i),
      told: store.told[n] ?? {},
      get blanket() {
        return (blanket ??= blanketOf(graph, n));
      },
    };
  });
  return { ...columnsOf(nodes, edges, store.colours), plates: sent.plates, size: sent.size, facts };
}

// ------------------------------------------------------------------ in the page

/** @param {any} plot @param {Store} store @param {string} name @returns {View} */
function cached(plot, store, name) {
  if (plot.gibbsiteViews?.store !== store) plot.gibbsiteViews = { store, views: new Map() };
  const { views } = plot.gibbsiteViews;
  if (!views.has(name)) views.set(name, viewOf(store, name));
  return views.get(name);
}

/** The figure as it is on the page. @param {any} plot */
function figureOf(plot) {
  const index = /** @type {any} */ (globalThis).Bokeh?.index;
  return plot.document?.views_manager?.find_one(plot) ?? index?.find_one(plot) ?? null;
}

/** Sizes of the figure and its words, and which controls there are. @param {any} args @param {State} state
 * @param {Store} store @param {View} view */
function arrange(args, state, store, view) {
  const { plot, fit, detail, panel } = args;
  const [width, height, across, down, title, text] = view.size;
  const large = across > FIT[0] || down > FIT[1] + 200;
  const scale = state.fit && large ? Math.min(FIT[0] / across, FIT[1] / down) : 1;
  plot.x_range.setv({ start: 0, end: width });
  plot.y_range.setv({ start: -height, end: 0 });
  plot.setv({ width: Math.round(across * scale), height: Math.round(down * scale) });
  const sizes = [title * scale, text * scale];
  [args.title, args.words].forEach((renderer, i) => {
    renderer.visible = sizes[i] >= LEAST_TEXT;
    renderer.glyph.setv({ text_font_size: `${sizes[i]}px` });
  });
  fit.setv({ visible: large, active: state.fit && large });
  const names = Object.keys(LABELS).filter((n) => n in store.views);
  const at = names.indexOf(state.view);
  detail.setv({ labels: names.map((n) => LABELS[n]), active: at < 0 ? null : at, visible: names.length > 1 });
  const wide = across * scale > 620;
  args.side.setv({ css_classes: wide ? ["gp-below"] : [] });
  panel.setv({ width: wide ? Math.min(Math.round(across * scale), FIT[0]) : 330 });
}

/** @param {any} args @param {State} state @param {Store} store @param {View} view */
function paint(args, state, store, view) {
  const dark = Boolean(args.plot.document?.gibbsiteDark);
  const colours = { ...store.colours, ...(dark ? store.colours.dark : {}) };
  const next = highlight(view, state, colours);
  const run = args.run.data;
  const at = new Map([...(run.name ?? [])].map((n, i) => [n, i]));
  /** @param {string} n @param {any[]} column @param {string} none */
  const told = (n, column, none) => column[at.get(n) ?? -1] ?? none;
  const badge = view.nodes.name.map((n) => told(n, run.words, ""));
  const tint = view.nodes.name.map((n) => told(n, run.colour, colours.edge)).map((c) => colours.tint?.[c] ?? c);
  for (const words of [args.title, args.words]) words.glyph.text_color = colours.ink;
  args.plate_words.glyph.text_color = colours.plate;
  args.nodes.data = { ...view.nodes, ...next.nodes, badge, tint };
  args.edges.data = { ...view.edges, ...next.edges };
  args.heads.data = { ...view.heads, ...next.heads };
  return badge;
}

/** @param {any} args @param {State} state @param {Facts} facts */
function tell(args, state, facts) {
  const name = state.selected;
  const fact = name === null ? undefined : facts[name];
  const live = Boolean(args.plot.document?.gibbsite);
  const run = args.run.data;
  const at = [...(run.name ?? [])].indexOf(name);
  const { draws } = args;
  const html = draws.data.name?.[0] === name ? draws.data.html[0] : at < 0 ? "" : run.told[at];
  args.panel.text = panelHtml(answer(facts, state), fact && name !== null ? panelOf(facts, name, html) : "");
  // What was intervened on is deterministic now: Undo must stay in reach.
  const fits = fact ? /latent|observed|deterministic/.test(fact.kind) : args.change.visible;
  args.change.visible = Boolean(live && args.changeable && fits);
  if (fact) {
    const { kernels = [], kernel = "" } = fact.told;
    const now = kernel.split("(")[0].trim();
    args.kernel.setv({ options: kernels, value: kernels.includes(now) ? now : (kernels[0] ?? "") });
    for (const control of [args.kernel, args.use]) control.visible = kernels.length > 0;
    const [way = ""] = fact.told.ways ?? [];
    args.reparam.setv({ label: `make ${way}`, tags: [way], visible: way !== "" });
    const other = state.other ?? "";
    args.merge.setv({
      label: `one block with ${other}`,
      tags: [other],
      visible: fact.kind === "latent" && facts[other]?.kind === "latent",
    });
  }
}

/** Show a new state. @param {any} args @param {Store} store @param {State} state @param {boolean} [whole] */
function show(args, store, state, whole = false) {
  const { plot } = args;
  /** @type {State} */
  const old = plot.gibbsiteState;
  plot.gibbsiteState = state;
  const view = cached(plot, store, state.view);
  const chosen = state.selected !== old.selected;
  if (whole) arrange(args, state, store, view);
  if (chosen || state.other !== old.other || state.given !== old.given || whole) tell(args, state, view.facts);
  if (chosen) plot.document?.gibbsite?.("select", { node: state.selected });
  if (!whole) {
    if (!plot.gibbsiteComing) draw(args, store, chosen);
    return;
  }
  // Bokeh takes up new rows in several steps and may not lay out the page between them: let that settle first.
  clearTimeout(plot.gibbsiteComing);
  plot.gibbsiteComing = setTimeout(() => {
    plot.gibbsiteComing = undefined;
    const { plates } = cached(plot, store, plot.gibbsiteState.view);
    args.plates.data = plates;
    draw(args, store, true, true);
  });
}

/** @param {any} args @param {Store} store @param {boolean} label @param {boolean} [lay] */
function draw(args, store, label, lay = false) {
  const { plot } = args;
  const state = plot.gibbsiteState;
  const view = cached(plot, store, state.view);
  const badges = paint(args, state, store, view);
  if (plot.document) plot.document.gibbsiteTheme = () => draw(args, store, false);
  const figure = figureOf(plot);
  if (figure && lay) layKeys(figure, view, actsOf(args, store));
  if (figure && label) labelKeys(figure, view, state.selected, badges);
}

/** What the keyboard does. @param {any} args @param {Store} store */
function actsOf(args, store) {
  const { plot } = args;
  return {
    /** @param {string|null} name */
    focus: (name) => show(args, store, { ...plot.gibbsiteState, hovered: name }),
    /** @param {string|null} name @param {KeyboardEvent} event */
    press: (name, event) => {
      const keys = { shift: event.shiftKey, ctrl: event.ctrlKey || event.metaKey, alt: event.altKey };
      show(args, store, clicked(plot.gibbsiteState, name, keys));
    },
  };
}

/** The state after an event, or null if nothing changes. @param {State} old @param {any} source @param {View} view
 * @param {Store} store @returns {State|null} */
function after(old, source, view, store) {
  const { facts } = view;
  const event = source.event_name;
  if (event === "mousemove" || event === "mouseleave") {
    const hovered = event === "mouseleave" ? null : nodeAt(facts, source.x, source.y);
    return hovered === old.hovered ? null : { ...old, hovered };
  }
  const plate = event === "tap" && nodeAt(facts, source.x, source.y) === null ? plateAt(view, source.x, source.y) : null;
  if (plate !== null) {
    // Of two plates the second closes beside the first.
    const single = Object.keys(store.views).filter((n) => n.startsWith("plate "));
    const both = single.length === 2 && old.view.startsWith("plate ");
    const next = both ? "plates" : `plate ${plate}`;
    if (next in store.views && next !== old.view) return { ...freshState(next), byLevel: old.byLevel };
  }
  if (event === "tap") return clicked(old, nodeAt(facts, source.x, source.y), source.modifiers ?? {});
  if (event === "doubletap") {
    const name = nodeAt(facts, source.x, source.y);
    if (name === null) return old.fit ? { ...old, fit: false } : null;
    if (!facts[name].told.stands) return null;
    if (old.view.startsWith("plate") && facts[name].told.plate) return { ...freshState("folded"), byLevel: old.byLevel };
    const finer = Object.keys(LABELS).filter((n) => n in store.views);
    const next = finer[finer.indexOf(old.view) + 1];
    return next ? { ...freshState(next), byLevel: old.byLevel } : null;
  }
  if (source.name === "graph-search") {
    const found = search(facts, source.value_input ?? source.value);
    return { ...old, found, selected: found.length === 1 ? found[0] : old.selected };
  }
  if (source.name === "graph-colour") return { ...old, byLevel: source.active === 1 };
  if (source.name === "graph-fit") return old.fit === source.active ? null : { ...old, fit: source.active };
  if (source.name === "graph-detail") {
    const view = Object.keys(LABELS).find((n) => LABELS[n] === source.labels[source.active]);
    return !view || view === old.view ? null : { ...freshState(view), byLevel: old.byLevel, fit: old.fit };
  }
  return null;
}

/** @param {any} args @param {any} source */
export default async function react(args, source) {
  const { plot } = args;
  const text = args.store.data.text[0];
  if (plot.gibbsiteText !== text) {
    plot.gibbsiteText = text;
    plot.gibbsiteStore = unpacked(text);
  }
  /** @type {Store} */
  const store = await plot.gibbsiteStore;
  if (plot.gibbsiteText !== text) return; // a newer text has come in meanwhile: its own event shows it
  plot.gibbsiteState ??= freshState(store.start);
  const fresh = plot.gibbsitePainted !== text;
  if (fresh) {
    plot.gibbsitePainted = text;
    /** @type {State} */
    const old = plot.gibbsiteState;
    const view = old.view in store.views ? old.view : store.start;
    const kept = old.selected !== null && store.views[view].nodes.name.includes(old.selected);
    const { byLevel, fit } = old;
    show(args, store, { ...freshState(view), byLevel, fit, selected: kept ? old.selected : null }, true);
  }
  /** @type {State} */
  const old = plot.gibbsiteState;
  const next = after(old, source, cached(plot, store, old.view), store);
  if (next !== null) show(args, store, next, next.view !== old.view || next.fit !== old.fit);
  if (source.name === "graph-run" && !plot.gibbsiteComing) draw(args, store, true);
  if (source.name === "graph-run" || source.name === "graph-draws") {
    tell(args, plot.gibbsiteState, cached(plot, store, old.view).facts);
  }
}
