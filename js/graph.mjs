// What happens on the drawing of a graph: hovering lights a node, its Markov blanket and the edges between
// them; a click shows the node's panel. Runs as a Bokeh CustomJS, in a notebook and in an exported page.

const FAINT = 0.22;

/** The node whose box holds the point, or null. */
export function nodeAt(facts, x, y) {
  for (const [name, { box }] of Object.entries(facts)) {
    if (x >= box[0] && y >= box[1] && x <= box[2] && y <= box[3]) return name;
  }
  return null;
}

/** Names that are lit while `name` is hovered: the node itself and its Markov blanket. */
export function litNames(facts, name) {
  return new Set([name, ...facts[name].blanket]);
}

/** New columns for nodes and edges: `lit` is a set of names, or null for "everything as it is". */
export function highlight(nodes, edges, facts, name) {
  const lit = name === null ? null : litNames(facts, name);
  const near = name === null ? new Set() : new Set(facts[name].near);
  const on = (n) => lit === null || lit.has(n) || near.has(n);
  return {
    nodes: {
      alpha: nodes.name.map((n) => (on(n) ? 1 : FAINT)),
      width: nodes.name.map((n) => (lit === null ? 1.6 : n === name ? 3.2 : lit.has(n) ? 2.4 : 1.6)),
      lit: nodes.name.map((n) => (lit !== null && n !== name && lit.has(n) ? 1 : 0)),
    },
    edges: {
      alpha: edges.start.map((a, i) => (lit === null || (on(a) && on(edges.end[i])) ? 1 : FAINT * 0.7)),
      width: edges.start.map((a, i) => (lit !== null && (a === name || edges.end[i] === name) ? 2.4 : 1.4)),
    },
  };
}

function paint({ nodes, edges, heads, facts }, name) {
  const next = highlight(nodes.data, edges.data, facts, name);
  nodes.data = { ...nodes.data, ...next.nodes };
  edges.data = { ...edges.data, ...next.edges };
  heads.data = { ...heads.data, alpha: next.edges.alpha };
}

export default function react(args, event) {
  const facts = args.facts instanceof Map ? Object.fromEntries([...args.facts].map(plain)) : args.facts;
  const { plot, panel } = args;
  const name = event.event_name === "mouseleave" ? null : nodeAt(facts, event.x, event.y);
  if (event.event_name === "tap") {
    if (name === null) return;
    panel.text = facts[name].panel;
    plot.document?.gibbsite?.("select", { node: name });
    return;
  }
  if (plot.gibbsiteHovered === name) return;
  plot.gibbsiteHovered = name;
  paint({ ...args, facts }, name);
}

/** Bokeh hands dictionaries over as maps. */
function plain([key, value]) {
  return [key, value instanceof Map ? Object.fromEntries(value) : value];
}
