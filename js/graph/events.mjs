// What an event makes of the state of the graph's display.

import { search } from "./model.mjs";
import { clicked, closedAt, nodeAt, toggledPlate, turnedTo } from "./state.mjs";

/**
 * @typedef {import("./state.mjs").State} State
 * @typedef {import("./state.mjs").View} View
 * @typedef {import("./view.mjs").Store} Store
 */

export const LABELS = /** @type {Record<string, string>} */ ({
  overview: "overview", plates: "plates closed", folded: "folded", open: "all",
});

/** The plates that can be closed where everything else is folded. @param {Store} store @returns {string[]} */
function allPlates({ views }) {
  return views.folded?.closable ?? [];
}

/** The ways of showing the graph that the buttons offer. @param {Store} store */
export function offered(store) {
  const plates = allPlates(store).length > 0;
  return Object.keys(LABELS).filter((n) => n in store.views || (n === "plates" && plates));
}

/** The button that tells how the graph is shown now, "" if some plates are closed.
 * @param {State} state @param {View} view */
export function wayOf(state, view) {
  if (!state.closed.length) return state.view;
  return state.view === "folded" && !view.closable.length ? "plates" : "";
}

/** The state after a plate, or a node that stands for several, has been opened or closed; null if it cannot be.
 * @param {State} old @param {string} name @param {View} view @param {Store} store @returns {State|null} */
export function turned(old, name, view, store) {
  const closed = toggledPlate(view, old.closed, name);
  if (closed) return turnedTo(old, old.view, closed);
  if (!view.facts[name]?.told.stands) return null;
  const finer = Object.keys(LABELS).filter((n) => n in store.views);
  const next = finer[finer.indexOf(old.view) + 1];
  return next ? turnedTo(old, next, old.closed) : null;
}

/** The state after an event, or null if nothing changes. @param {State} old @param {any} source @param {View} view
 * @param {Store} store @returns {State|null} */
export function after(old, source, view, store) {
  const { facts } = view;
  const event = source.event_name;
  if (event === "mousemove" || event === "mouseleave") {
    const hovered = event === "mouseleave" ? null : nodeAt(facts, source.x, source.y);
    return hovered === old.hovered ? null : { ...old, hovered };
  }
  if (event === "tap") {
    const name = nodeAt(facts, source.x, source.y);
    const next = name === null ? closedAt(old, view, source.x, source.y) : null;
    return next ?? clicked(old, name, source.modifiers ?? {});
  }
  if (event === "doubletap") {
    const name = nodeAt(facts, source.x, source.y);
    if (name === null) return old.fit ? { ...old, fit: false } : null;
    return turned(old, name, view, store);
  }
  if (source.name === "graph-search") {
    const found = search(facts, source.value_input ?? source.value);
    return { ...old, found, selected: found.length === 1 ? found[0] : old.selected };
  }
  if (source.name === "graph-steps") {
    const step = source.active ?? 0;
    return step === old.step ? null : { ...old, step, selected: null, other: null, given: [], found: [] };
  }
  if (source.name === "graph-colour") return { ...old, byLevel: source.active === 1 };
  if (source.name === "graph-fit") return old.fit === source.active ? null : { ...old, fit: source.active };
  if (source.name === "graph-detail") {
    const wish = offered(store).find((n) => LABELS[n] === source.labels[source.active]);
    if (!wish || wish === wayOf(old, view)) return null;
    return wish === "plates" ? turnedTo(old, "folded", allPlates(store)) : turnedTo(old, wish);
  }
  return null;
}
