// What happens on the drawing of a graph: hovering lights a node, its Markov blanket and the edges between
// them; a click shows the node's panel; a second node, with Shift, asks whether the two are independent.
// Runs as a Bokeh CustomJS, in a notebook and in an exported page: nothing here needs a kernel.
//
// Everything that can be shown is in the data source "graph-store", as compressed JSON: the views of the graph
// (overview, folded, open) with the places of their nodes and edges, and what there is to tell of each node.
// Python replaces the text when the model changes.

import { unpacked } from "../host/packed.mjs";
import { layKeys, labelKeys } from "./keys.mjs";
import { after, LABELS, offered, turned, wayOf } from "./events.mjs";
import { arrangeMap, layMap, onMap, reveal, shownView, wantsMap } from "./map.mjs";
import { FIT, LEAST_DRAWN, onRoom, PANEL, roomOf, scaleOf } from "./fit.mjs";
import { isDrawn, nearest } from "./forms.mjs";
import { legendOf, levelsLegend, panelHtml, panelOf } from "./panel.mjs";
import { answer, badgesOf, clicked, freshState, highlight, stepWords, turnedTo } from "./state.mjs";
import { viewOf } from "./view.mjs";

/**
 * @typedef {import("./model.mjs").Facts} Facts
 * @typedef {import("./state.mjs").State} State
 * @typedef {import("./state.mjs").View} View
 * @typedef {import("./view.mjs").Store} Store
 */

const LEAST_TEXT = 5;
const MOST_PANEL = 620;

// ------------------------------------------------------------------ in the page

/** The state with plates closed in a way that was drawn: as wished or, until the kernel has drawn that, nearly so.
 * @param {any} plot @param {Store} store @param {State|null} next @param {string[]} [before] what was closed
 * @returns {State|null} */
function drawable(plot, store, next, before = []) {
  if (next === null || isDrawn(store.views[next.view], next.closed)) return next;
  plot.gibbsiteAsked = next;
  plot.document?.gibbsite?.("close", { view: next.view, plates: next.closed });
  const pivot = next.closed.find((p) => !before.includes(p)) ?? before.find((p) => !next.closed.includes(p));
  return { ...next, closed: nearest(store.views[next.view], next.closed, pivot) };
}

/** @param {any} plot @param {Store} store @param {State} state @returns {View} */
function cached(plot, store, { view, closed }) {
  if (plot.gibbsiteViews?.store !== store) plot.gibbsiteViews = { store, views: new Map() };
  const { views } = plot.gibbsiteViews;
  const key = JSON.stringify([view, [...closed].sort()]);
  if (!views.has(key)) views.set(key, viewOf(store, view, closed));
  return views.get(key);
}

/** Sizes of the figure and its words, and which controls there are. @param {any} args @param {State} state
 * @param {Store} store @param {View} view */
function arrange(args, state, store, view) {
  const { plot, fit, detail, panel } = args;
  const [width, height, across, down, title, text] = view.size;
  const room = roomOf(plot);
  const { large, fitted, left, tall, scale } = scaleOf(across, down, room, state.fit);
  plot.x_range.setv({ start: 0, end: width });
  plot.y_range.setv({ start: -height, end: 0 });
  plot.setv({ width: Math.round(across * scale), height: Math.round(down * scale) });
  const sizes = [title * scale, text * scale];
  [args.title, args.words].forEach((renderer, i) => {
    renderer.visible = sizes[i] >= LEAST_TEXT;
    renderer.glyph.setv({ text_font_size: `${sizes[i]}px` });
  });
  plot.gibbsiteFitted = fitted; // so that the button's own event is none
  fit.setv({ visible: large, active: fitted });
  const names = offered(store);
  const at = names.indexOf(wayOf(state, view));
  detail.setv({ labels: names.map((n) => LABELS[n]), active: at < 0 ? null : at, visible: names.length > 1 });
  const { steps = [] } = store;
  const numbers = steps.map((_, i) => String(i + 1));
  args.steps.setv({ labels: ["all", ...numbers], active: state.step, visible: steps.length > 0 });
  arrangeMap(args, view, wantsMap(view, large, fitted));
  // The panel stands beside the drawing where there is room for both, or where it would be below the fold; a
  // drawing that is scrolled through anyway then gives way to it.
  const drawn = Math.min(Math.round(across * scale), FIT[0], room);
  const cut = drawn > left && tall && left >= LEAST_DRAWN;
  const beside = drawn <= left || cut;
  args.side.setv({ css_classes: beside ? [] : ["gp-below"] });
  args.scroll.setv({ styles: cut ? { "max-width": `${left}px` } : {} });
  const rest = beside ? Math.max(PANEL, room - Math.min(drawn, left) - 40) : room - 16;
  const own = Math.min(rest, MOST_PANEL);
  for (const part of [panel, args.change]) part.setv({ width: own });
}

/** @param {any} args @param {State} state @param {Store} store @param {View} view */
function paint(args, state, store, view) {
  const dark = Boolean(args.plot.document?.gibbsiteDark);
  const colours = { ...store.colours, ...(dark ? store.colours.dark : {}) };
  const next = highlight(view, state, colours);
  const badges = badgesOf(view, args.run.data, Object.keys(store.colours.dark?.tint ?? {}));
  const badge = badges.map(([words]) => words);
  const tint = badges.map(([, colour]) => colours.tint?.[colour] ?? (colour || colours.edge));
  for (const words of [args.title, args.words]) words.glyph.text_color = colours.ink;
  args.plate_words.glyph.text_color = colours.plate;
  args.badges.glyph.background_fill_color = colours.paper;
  args.nodes.data = { ...view.nodes, ...next.nodes, badge, tint };
  args.edges.data = { ...view.edges, ...next.edges };
  args.heads.data = { ...view.heads, ...next.heads };
  return badge;
}

/** @param {any} args @param {State} state @param {Facts} facts @param {Store} store */
function tell(args, state, facts, store) {
  const name = state.selected;
  const fact = name === null ? undefined : facts[name];
  const live = Boolean(args.plot.document?.gibbsite);
  const run = args.run.data;
  const at = [...(run.name ?? [])].indexOf(name);
  const { draws } = args;
  const html = draws.data.name?.[0] === name ? draws.data.html[0] : at < 0 ? "" : run.told[at];
  const { steps = [] } = store;
  const dark = args.plot.document?.gibbsiteDark ? store.colours.dark : {};
  const colours = { ...store.colours, ...dark };
  const legend = (steps.length ? legendOf(colours) : "") + (state.byLevel ? levelsLegend(colours) : "");
  const words = answer(facts, state) || stepWords(state, steps);
  args.panel.text = panelHtml(words, fact && name !== null ? panelOf(facts, name, html) : "", legend);
  // What was intervened on is a value now, and can be undone.
  const fits = fact && (/latent|observed|deterministic/.test(fact.kind) || (fact.kind === "data" && fact.told.statement));
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
  const view = cached(plot, store, state);
  if (state.selected !== null && !(state.selected in view.facts)) state = { ...state, selected: null };
  plot.gibbsiteState = state;
  const chosen = state.selected !== old.selected;
  if (whole) {
    arrange(args, state, store, view);
    onRoom(plot, () => show(args, store, plot.gibbsiteState, true));
  }
  const asked = state.other !== old.other || state.given !== old.given || state.step !== old.step;
  if (chosen || asked || state.byLevel !== old.byLevel || whole) {
    tell(args, state, view.facts, store);
  }
  if (chosen) plot.document?.gibbsite?.("select", { node: state.selected });
  if (!whole) {
    if (!plot.gibbsiteComing) draw(args, store, chosen);
    return;
  }
  // Bokeh takes up new rows in several steps and may not lay out the page between them: let that settle first.
  clearTimeout(plot.gibbsiteComing);
  plot.gibbsiteComing = setTimeout(() => {
    plot.gibbsiteComing = undefined;
    const { plates } = cached(plot, store, plot.gibbsiteState);
    args.plates.data = plates;
    draw(args, store, true, true);
  });
}

/** @param {any} args @param {Store} store @param {boolean} label @param {boolean} [lay] */
function draw(args, store, label, lay = false) {
  const { plot } = args;
  const state = plot.gibbsiteState;
  const view = cached(plot, store, state);
  const badges = paint(args, state, store, view);
  if (plot.document) plot.document.gibbsiteTheme = () => draw(args, store, false);
  const figure = shownView(plot);
  if (figure && lay) {
    layKeys(figure, view, actsOf(args, store));
    const fresh = plot.gibbsiteLaid !== state.view;
    plot.gibbsiteLaid = state.view;
    requestAnimationFrame(() => {
      // once the page has its new sizes; the map's box follows where one looks then
      if (fresh) reveal(args, view.facts[state.selected ?? firstSeen(args, view)].box);
      layMap(args);
    });
  }
  if (figure && label && state.selected !== null && !lay) reveal(args, view.facts[state.selected].box);
  if (figure && label) labelKeys(figure, view, state.selected, badges);
}

/** The node that one looks at first: of a drawing too large to be seen at once an outcome, where much of it comes
 * together, and not a corner. @param {any} args @param {View} view */
function firstSeen(args, view) {
  const observed = view.nodes.name.filter((name) => view.facts[name].kind === "observed");
  return (args.map.visible && observed.at(-1)) || view.nodes.name[0];
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
    /** Open or close. @param {string} name of a plate, or of a node that stands for several */
    turn: (name) => {
      /** @type {State} */
      const old = plot.gibbsiteState;
      const next = drawable(plot, store, turned(old, name, cached(plot, store, old), store), old.closed);
      if (next) show(args, store, next, true);
    },
  };
}

/** @param {any} args @param {any} source */
export default async function react(args, source) {
  const { plot } = args;
  if (onMap(args, source) || (source === args.fit && source.active === plot.gibbsiteFitted)) return;
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
    const { closable } = store.views[view];
    const closed = nearest(store.views[view], old.closed.filter((p) => closable.includes(p)), undefined);
    /** @type {State|undefined} */
    const asked = plot.gibbsiteAsked;
    const there = asked && asked.view in store.views && isDrawn(store.views[asked.view], asked.closed);
    plot.gibbsiteAsked = undefined;
    show(args, store, there ? asked : turnedTo(old, view, closed), true);
  }
  /** @type {State} */
  const old = plot.gibbsiteState;
  const next = drawable(plot, store, after(old, source, cached(plot, store, old), store), old.closed);
  const whole = next !== null && (next.view !== old.view || next.fit !== old.fit || next.closed !== old.closed);
  if (next !== null) show(args, store, next, whole);
  if (source.name === "graph-run" && !plot.gibbsiteComing) draw(args, store, true);
  if (source.name === "graph-run" || source.name === "graph-draws") {
    tell(args, plot.gibbsiteState, cached(plot, store, plot.gibbsiteState).facts, store);
  }
}
