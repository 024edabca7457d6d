// One way of showing a graph: what Python drew, with all that follows from its edges.

import { formOf } from "./forms.mjs";
import { blanketOf, joined, levelsOf } from "./model.mjs";
import { boxOf, columnsOf } from "./shapes.mjs";

/**
 * @typedef {import("./forms.mjs").Drawn} Drawn
 * @typedef {import("./model.mjs").Facts} Facts
 * @typedef {import("./model.mjs").Told} Told
 * @typedef {import("./shapes.mjs").Colours} Colours
 * @typedef {import("./state.mjs").View} View
 * @typedef {{views: Record<string, Drawn>, start: string, told: Record<string, Told>, steps?: string[],
 *   colours: Colours}} Store
 */

/** @param {Store} store @param {string} name
 * @param {string[]} [closed] plates @returns {View} */
export function viewOf(store, name, closed = []) {
  const { nodes, edges, plates, size, told, merged, closable } = formOf(store.views[name], closed);
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
      told: told[n] ?? store.told[n] ?? {},
      get blanket() {
        return (blanket ??= blanketOf(graph, n));
      },
    };
  });
  return { ...columnsOf(nodes, edges, store.colours, size[0]), plates, size, facts, merged, closable };
}
