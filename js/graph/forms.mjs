// The ways in which a view of the graph was drawn: open, and with sets of plates closed.

/**
 * @typedef {import("./model.mjs").Told} Told
 * @typedef {{shut: string[], members: string[]}} Merged
 * @typedef {{nodes: import("./shapes.mjs").Places, edges: import("./shapes.mjs").Lines,
 *   plates: import("./shapes.mjs").Columns, size: number[], closable: string[]}} Sent
 * @typedef {Sent & {merged: Record<string, Merged>, told: Record<string, Told>}} Form
 * @typedef {Sent & {sets: Record<string, number>, forms: Form[]}} Drawn
 */

/** @param {string[]} plates */
const keyOf = (plates) => [...plates].sort().join("\n");

/** Whether a view was drawn with exactly these plates closed. @param {Drawn} drawn @param {string[]} closed */
export function isDrawn(drawn, closed) {
  return !closed.length || Object.hasOwn(drawn.sets, keyOf(closed));
}

/** The same entries without JavaScript's own names among them. @template T @param {Record<string, T>} entries
 * @returns {Record<string, T>} */
const bare = (entries) => Object.assign(Object.create(null), entries);

/** A view as it is with these plates closed, which it must have been drawn with.
 * @param {Drawn} drawn @param {string[]} closed @returns {Form} */
export function formOf(drawn, closed) {
  const form = closed.length ? drawn.forms[drawn.sets[keyOf(closed)]] : { ...drawn, merged: {}, told: {} };
  return { ...form, merged: bare(form.merged), told: bare(form.told) };
}

/** The set of closed plates, among those that were drawn, that differs from the wished one by the fewest, and not
 * in whether `pivot` is closed. @param {Drawn} drawn @param {string[]} wished @param {string|undefined} pivot
 * @returns {string[]} */
export function nearest(drawn, wished, pivot) {
  if (isDrawn(drawn, wished)) return wished;
  const sets = ["", ...Object.keys(drawn.sets)].map((key) => key.split("\n").filter(Boolean));
  /** @param {string[]} set */
  const far = (set) =>
    set.filter((p) => !wished.includes(p)).length + wished.filter((p) => !set.includes(p)).length;
  const fit = sets.filter((set) => pivot === undefined || set.includes(pivot) === wished.includes(pivot));
  return fit.reduce((best, set) => (far(set) < far(best) ? set : best), fit[0]);
}
