// The graph by keyboard and by ear. The drawing is a canvas; over it lies one invisible element per node that
// can have the focus and has a name. The graph is one stop of the Tab key; arrows move from node to node.

import { sketch } from "./graph_panel.mjs";
import { neighbour } from "./graph_state.mjs";

/**
 * @typedef {import("./graph_model.mjs").Facts} Facts
 * @typedef {import("./graph_state.mjs").View} View
 * @typedef {{focus: (name: string|null) => void, press: (name: string|null, event: KeyboardEvent) => void}} Acts
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

/** @param {Element|ShadowRoot} root */
function layerIn(root) {
  let layer = /** @type {HTMLElement|null} */ (root.querySelector(".gk"));
  if (!layer) {
    const style = document.createElement("style");
    style.textContent = CSS;
    layer = document.createElement("div");
    layer.className = "gk";
    layer.setAttribute("role", "group");
    layer.setAttribute("aria-label", "Nodes of the graph");
    root.append(style, layer);
  }
  return layer;
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

/** Put the elements over a view's nodes. @param {any} figure the figure's view @param {View} view @param {Acts} acts */
export function layKeys(figure, view, acts) {
  const layer = layerIn(figure.shadow_el ?? figure.el);
  // JupyterLab must not take arrows, Enter and letters for its own while the focus is in the graph.
  (figure.root ?? figure).el.dataset.lmSuppressShortcuts = "true";
  plainCanvas(figure);
  const { facts, size } = view;
  const names = Object.keys(facts);
  /** @type {Record<string, HTMLElement>} */
  const elements = Object.create(null);
  /** @param {string} name */
  const onlyStop = (name) => {
    for (const [n, element] of Object.entries(elements)) element.tabIndex = n === name ? 0 : -1;
  };
  layer.replaceChildren(
    ...names.map((name, i) => {
      const [left, low, right, high] = facts[name].box;
      const element = document.createElement("div");
      element.setAttribute("role", "button");
      element.setAttribute("aria-label", spoken(facts, name, ""));
      element.tabIndex = i ? -1 : 0;
      Object.assign(element.style, {
        left: `${(100 * left) / size[0]}%`,
        top: `${(-100 * high) / size[1]}%`,
        width: `${(100 * (right - left)) / size[0]}%`,
        height: `${(100 * (high - low)) / size[1]}%`,
      });
      element.addEventListener("focus", () => {
        onlyStop(name);
        acts.focus(name);
      });
      element.addEventListener("blur", () => acts.focus(null));
      element.addEventListener("keydown", (event) => {
        const { key } = event;
        if (key.startsWith("Arrow")) elements[neighbour(facts, name, key)].focus();
        else if (key === "Home") elements[names[0]].focus();
        else if (key === "End") elements[names[names.length - 1]].focus();
        else if (key === "Enter" || key === " ") acts.press(name, event);
        else if (key === "Escape") acts.press(null, event);
        else return;
        event.preventDefault();
        event.stopPropagation();
      });
      elements[name] = element;
      return element;
    }),
  );
}

/** Tell which node is chosen, and the state of a run. @param {any} figure @param {View} view
 * @param {string|null} selected @param {string[]} badges */
export function labelKeys(figure, view, selected, badges) {
  const layer = layerIn(figure.shadow_el ?? figure.el);
  Object.keys(view.facts).forEach((name, i) => {
    const element = layer.children[i];
    if (!element) return;
    element.setAttribute("aria-pressed", String(name === selected));
    element.setAttribute("aria-label", spoken(view.facts, name, badges[i]));
  });
}
