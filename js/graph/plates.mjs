// A graph with plates closed, each as one node: the same merging as in gibbsite/graph/plates.py, so that any
// set of plates closes and opens in a page without a kernel.

/**
 * @typedef {{name: string, kind: string, discrete: boolean, w: number, h: number, title: string, text: string,
 *   x: number, plates: string[], within: string[], shape: number[], members: string[], shut: string[]}} Item
 * @typedef {{name: string, size: number, parent: string|null}} Plate
 * @typedef {{items: Item[], edges: [string, string][], plates: Plate[]}} Laid
 */

const MOST_NAMES = 4;
const MOST_TEXT = 40;
const BRIEF_FROM = 60;

/** The plates that can be closed: those that hold at least two nodes, or a part of them. @param {Laid} graph */
export function closable({ items, plates }) {
  const names = plates.map((plate) => plate.name);
  return names.filter((name) => items.filter((item) => item.within.includes(name)).length > 1);
}

/** `inside` and all that lies on a path between two of them. @param {[string, string][]} edges
 * @param {Set<string>} inside */
function withPaths(edges, inside) {
  /** @param {0|1} from */
  const beyond = (from) => {
    /** @type {Map<string, string[]>} */
    const next = new Map();
    for (const edge of edges) next.set(edge[from], [...(next.get(edge[from]) ?? []), edge[1 - from]]);
    /** @type {Set<string>} */
    const found = new Set();
    const stack = [...inside];
    while (stack.length) {
      for (const n of next.get(/** @type {string} */ (stack.pop())) ?? []) {
        if (!found.has(n)) {
          found.add(n);
          stack.push(n);
        }
      }
    }
    return found;
  };
  const [below, above] = [beyond(0), beyond(1)];
  return new Set([...inside, ...[...below].filter((n) => above.has(n))]);
}

/** @param {Item[]} items */
function kindOf(items) {
  const kinds = new Set(items.map((item) => item.kind));
  if (kinds.size === 1) return items[0].kind;
  return [...kinds].every((k) => k === "latent" || k === "deterministic") ? "latent" : "plate";
}

/** The plates that a merged node is named after: without those that lie inside another of them.
 * @param {Plate[]} plates @param {Set<string>} shut */
function outermost(plates, shut) {
  const parent = new Map(plates.map((p) => [p.name, p.parent]));
  /** @param {string} name */
  const hidden = (name) => {
    for (let p = parent.get(name); p; p = parent.get(p)) if (shut.has(p)) return true;
    return false;
  };
  return plates.filter((p) => shut.has(p.name) && !hidden(p.name));
}

/** @param {Laid} graph @param {Item[]} merged @param {Set<string>} shut @param {boolean} brief @returns {Item} */
function asOne(graph, merged, shut, brief) {
  const named = outermost(graph.plates, shut);
  let name = `plate${named.length > 1 ? "s" : ""} ${named.map((p) => p.name).join(", ")}`;
  while (graph.items.some((item) => item.name === name && !merged.includes(item))) name += "′";
  const listed = merged.flatMap((item) => (item.shut.length ? item.members : [item.name]));
  const more = listed.length - MOST_NAMES;
  let text = listed.slice(0, MOST_NAMES).join(", ") + (more > 0 ? ` and ${more} more` : "");
  if (text.length > MOST_TEXT) text = `${text.slice(0, MOST_TEXT - 1)}…`;
  if (brief) text = "";
  const shape = named.map((p) => p.size);
  const title = `${name} [${shape.join(" × ")}]`;
  return {
    name,
    kind: kindOf(merged),
    discrete: merged.every((item) => item.discrete),
    title,
    text,
    w: Math.max(8.2 * title.length, 6.1 * text.length, 34) + (brief ? 20 : 34),
    h: text ? 50 : 34,
    x: merged.reduce((sum, item) => sum + item.x, 0) / merged.length,
    plates: merged[0].plates.filter((p) => !shut.has(p) && merged.every((item) => item.plates.includes(p))),
    within: [...new Set(merged.flatMap((item) => item.within))],
    shape,
    members: merged.flatMap((item) => item.members),
    shut: [...shut],
  };
}

/** The graph with these plates closed. A plate of one node stays as it is; closed plates that share a node are
 * one node; what lies between members is taken in, so that no circle arises.
 * @param {Laid} graph @param {string[]} names @returns {Laid} */
export function closedGraph(graph, names) {
  const brief = graph.items.length > BRIEF_FROM;
  let { items, edges } = graph;
  for (const { name } of graph.plates) {
    if (!names.includes(name)) continue;
    const inside = items.filter((item) => item.within.includes(name));
    if (inside.length < 2) continue;
    const taken = withPaths(edges, new Set(inside.map((item) => item.name)));
    const merged = items.filter((item) => taken.has(item.name));
    const one = asOne({ ...graph, items }, merged, new Set([name, ...merged.flatMap((item) => item.shut)]), brief);
    items = items.filter((item) => item === merged[0] || !taken.has(item.name));
    items = items.map((item) => (item === merged[0] ? one : item));
    /** @param {string} n */
    const own = (n) => (taken.has(n) ? one.name : n);
    const pairs = edges.map(([a, b]) => /** @type {[string, string]} */ ([own(a), own(b)]));
    const wasLoop = edges.map(([a, b]) => a === b);
    const kept = pairs.filter(([a, b], i) => (a !== b || wasLoop[i]) && !(a === b && a === one.name));
    edges = [...new Map(kept.map((pair) => [pair.join("\n"), pair])).values()];
  }
  const used = new Set(items.flatMap((item) => item.plates));
  return { items, edges, plates: graph.plates.filter((p) => used.has(p.name)) };
}
