// The graph by keyboard and by ear. The drawing is a canvas; over it lies one invisible element per node that
// can have the focus and has a name. The graph is one stop of the Tab key; arrows move from node to node. Its
// plates are the next stop.

import { sketch } from "./panel.mjs";
import { neighbour } from "./state.mjs";

/**
 * @typedef {import("./model.mjs").Facts} Facts
 * @typedef {import("./state.mjs").View} View
 * @typedef {{focus: (name: string|null) => void, press: (name: string|null, event: KeyboardEvent) => void,
 *   turn: (name: string) => void}} Acts
 */

const CSS = `
.gk { position: absolute; inset: 0; pointer-events: none; }
.gk div { position: absolute; border-radius: 10px; outline: none; }
.gk div:focus-visible { outline: 3px solid #c2185b; outline-offset: 3px; }`;

/** What a screen reader says of a node. @param {Facts} facts @param {string} name @param {string} badge */
export function spoken(facts, name, badge) {
  const { parents, children } = facts[name];
  const words = [`${name}: ${sketch(facts, name)}`];
  if (parents.length) words.push(`reads ${parents.slice(0, 8).join(", ")}`);
  if (children.length) words.push(`read by ${children.slice(0, 8).join(", ")}`);
  if (badge) words.push(badge);
  return words.join("; ");
}

/** @param {Element|ShadowRoot} root @param {string} name @param {string} words */
function layerIn(root, name, words) {
  let layer = /** @type {HTMLElement|null} */ (root.querySelector(`.${name}`));
  if (!layer) {
    const style = document.createElement("style");
    style.textContent = CSS;
    layer = document.createElement("div");
    layer.className = `gk ${name}`;
    layer.setAttribute("role", "group");
    layer.setAttribute("aria-label", words);
    root.append(style, layer);
  }
  return layer;
}

/** @param {any} figure */
function nodesLayer(figure) {
  return layerIn(figure.shadow_el ?? figure.el, "gk-nodes", "Nodes of the graph");
}

/** The canvas itself is no stop of the Tab key, and shows no frame when clicked. @param {any} figure */
function plainCanvas(figure) {
  const root = figure.canvas_view?.shadow_el;
  if (!root || root.querySelector(".gk-plain")) return;
  const style = document.createElement("style");
  style.className = "gk-plain";
  style.textContent = ":host, * { outline: none !important; }";
  root.append(style);
  for (const element of root.querySelectorAll("[tabindex]")) element.tabIndex = -1;
}

/** Elements of which one at a time is a stop of the Tab key, over boxes of a view.
 * @param {HTMLElement} layer @param {View} view @param {{key: string, label: string, box: number[]}[]} entries
 * @param {(key: string, event: KeyboardEvent, move: (key: string) => void) => boolean} press whether it did anything
 * @param {(key: string|null) => void} focus */
function lay(layer, { size }, entries, press, focus) {
  const root = /** @type {ShadowRoot} */ (layer.getRootNode());
  const held = /** @type {HTMLElement|null} */ (layer.contains(root.activeElement) ? root.activeElement : null)?.dataset.key;
  /** @type {Map<string, HTMLElement>} */
  const elements = new Map();
  /** @param {string} key */
  const move = (key) => elements.get(key)?.focus();
  for (const [i, { key, label, box }] of entries.entries()) {
    const [left, low, right, high] = box;
    const element = document.createElement("div");
    element.setAttribute("role", "button");
    element.setAttribute("aria-label", label);
    element.dataset.key = key;
    element.tabIndex = i ? -1 : 0;
    Object.assign(element.style, {
      left: `${(100 * left) / size[0]}%`,
      top: `${(-100 * high) / size[1]}%`,
      width: `${(100 * (right - left)) / size[0]}%`,
      height: `${(100 * (high - low)) / size[1]}%`,
    });
    element.addEventListener("focus", () => {
      for (const [k, other] of elements) other.tabIndex = k === key ? 0 : -1;
      focus(key);
    });
    element.addEventListener("blur", () => focus(null));
    element.addEventListener("keydown", (event) => {
      if (!press(key, event, move)) return;
      event.preventDefault();
      event.stopPropagation();
    });
    elements.set(key, element);
  }
  layer.replaceChildren(...elements.values());
  if (held !== undefined) (elements.get(held) ?? [...elements.values()][0])?.focus();
}

/** Where the plates of a view can be closed and opened: their labels, and the nodes that stand for closed ones.
 * @param {View} view @returns {{key: string, label: string, box: number[]}[]} */
export function plateKeys({ plates, closable, merged, facts }) {
  const open = (plates.name ?? []).flatMap((name, i) => {
    if (!closable.includes(name)) return [];
    const wide = 7 * plates.label[i].length + 8;
    const left = plates.label_x[i] - (plates.align[i] === "left" ? 4 : wide - 4);
    const low = plates.label_y[i] - 3;
    return [{ key: name, label: `plate ${plates.label[i]}, open`, box: [left, low, left + wide, low + 17] }];
  });
  const shut = Object.entries(merged).flatMap(([node, { shut }]) =>
    shut.map((name) => ({ key: name, label: `plate ${name}, closed`, box: facts[node].box })),
  );
  return [...open, ...shut].sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** Put the elements over a view's nodes and plates. @param {any} figure the figure's view @param {View} view
 * @param {Acts} acts */
export function layKeys(figure, view, acts) {
  // JupyterLab must not take arrows, Enter and letters for its own while the focus is in the graph.
  (figure.root ?? figure).el.dataset.lmSuppressShortcuts = "true";
  plainCanvas(figure);
  const { facts } = view;
  const names = Object.keys(facts);
  const nodes = names.map((name) => ({ key: name, label: spoken(facts, name, ""), box: facts[name].box }));
  const layer = nodesLayer(figure);
  lay(
    layer,
    view,
    nodes,
    (name, event, move) => {
      const { key } = event;
      if (key.startsWith("Arrow")) move(neighbour(facts, name, key));
      else if (key === "Home") move(names[0]);
      else if (key === "End") move(names[names.length - 1]);
      else if (key === "Enter" || key === " ") acts.press(name, event);
      else if (key === "Escape") acts.press(null, event);
      else if (key === "+" && facts[name].told.stands) acts.turn(name);
      else return false;
      return true;
    },
    acts.focus,
  );
  const plates = plateKeys(view);
  const keys = plates.map((p) => p.key);
  lay(
    layerIn(figure.shadow_el ?? figure.el, "gk-plates", "Plates of the graph"),
    view,
    plates,
    (name, { key }, move) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
      if (step) move(keys[(keys.indexOf(name) + step + keys.length) % keys.length]);
      else if (key === "Enter" || key === " ") acts.turn(name);
      else return false;
      return true;
    },
    () => {},
  );
}

/** Tell which node is chosen, and the state of a run. @param {any} figure @param {View} view
 * @param {string|null} selected @param {string[]} badges */
export function labelKeys(figure, view, selected, badges) {
  const layer = nodesLayer(figure);
  Object.keys(view.facts).forEach((name, i) => {
    const element = layer.children[i];
    if (!element) return;
    element.setAttribute("aria-pressed", String(name === selected));
    element.setAttribute("aria-label", spoken(view.facts, name, badges[i]));
  });
}
