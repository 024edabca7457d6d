// One way of showing a graph: what Python sent, with all that follows from its edges and the plates closed.

import { withClosed } from "./closed.mjs";
import { blanketOf, joined, levelsOf } from "./model.mjs";
import { boxOf, columnsOf } from "./shapes.mjs";

/**
 * @typedef {import("./graph_closed.mjs").Sent} Sent
 * @typedef {import("./graph_model.mjs").Facts} Facts
 * @typedef {import("./graph_model.mjs").Told} Told
 * @typedef {import("./graph_shapes.mjs").Colours} Colours
 * @typedef {import("./graph_state.mjs").View} View
 * @typedef {{views: Record<string, Sent>, start: string, told: Record<string, Told>, colours: Colours}} Store
 */

/** @param {Store} store @param {string} name
 * @param {string[]} [closed] plates @returns {View} */
export function viewOf(store, name, closed = []) {
  const { sent, told, merged, closable } = withClosed(store.views[name], store.told, closed);
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
      told: told[n] ?? store.told[n] ?? {},
      get blanket() {
        return (blanket ??= blanketOf(graph, n));
      },
    };
  });
  const { plates, size } = sent;
  return { ...columnsOf(nodes, edges, store.colours, size[0]), plates, size, facts, merged, closable };
}
