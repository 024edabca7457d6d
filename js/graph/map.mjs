// The small map of a large graph: the whole drawing, and a box around the part that one sees. The box follows
// the scrolling of the drawing; dragging the box, a click on the map and the arrow keys scroll the drawing.

/** @typedef {import("./state.mjs").View} View */

const [MAP_WIDE, MAP_HIGH] = [300, 130];
const MAP_FROM = 40; // nodes
const SHARE = 0.3; // of the visible part, by which an arrow key moves

/** The view of a model on the page. @param {any} model */
export function shownView(model) {
  const index = /** @type {any} */ (globalThis).Bokeh?.index;
  return model.document?.views_manager?.find_one(model) ?? index?.find_one(model) ?? null;
}

/** The element that scrolls, once it is on the page. @param {any} args @returns {HTMLElement|null} */
function scroller(args) {
  return shownView(args.scroll)?.el ?? null;
}

/** How large the map of a drawing is. @param {number[]} size of the drawing: width and height @returns {[number, number]} */
export function mapSize([width, height]) {
  const scale = Math.min(MAP_WIDE / width, MAP_HIGH / height);
  return [Math.max(24, Math.round(width * scale)), Math.max(24, Math.round(height * scale))];
}

/** The part of a drawing that is seen. @param {{scrollLeft: number, scrollTop: number, clientWidth: number,
 * clientHeight: number}} at what scrolls @param {number} scale pixels by unit @param {number[]} size of the drawing */
export function seenPart(at, scale, [width, height]) {
  const left = at.scrollLeft / scale;
  const top = -at.scrollTop / scale;
  return {
    left,
    right: Math.min(width, left + at.clientWidth / scale),
    top,
    bottom: Math.max(-height, top - at.clientHeight / scale),
  };
}

/** Whether a view is worth a map. @param {View} view @param {boolean} large @param {boolean} fit */
export function wantsMap(view, large, fit) {
  return large && !fit && view.nodes.name.length > MAP_FROM;
}

/** Give the map its size, or hide it. @param {any} args @param {View} view @param {boolean} wanted */
export function arrangeMap(args, view, wanted) {
  const { map } = args;
  const [width, height] = view.size;
  const [wide, high] = mapSize(view.size);
  map.x_range.setv({ start: 0, end: width });
  map.y_range.setv({ start: -height, end: 0 });
  map.setv({ width: wide, height: high, visible: wanted });
}

/** The width of the box's line, in units of the drawing: inside the map it is drawn whole, and leaves no trace.
 * @param {any} args */
function inset({ plot, map }) {
  return (1.5 * plot.x_range.end) / map.width;
}

/** Put the box where one looks. @param {any} args */
function follow(args) {
  const { plot, map, box } = args;
  const at = scroller(args);
  if (!at || !map.visible) return;
  const seen = seenPart(at, plot.width / plot.x_range.end, [plot.x_range.end, -plot.y_range.start]);
  const by = inset(args);
  box.setv({ left: seen.left + by, right: seen.right - by, top: seen.top - by, bottom: seen.bottom + by });
}

/** Look where the box is. @param {any} args */
function lead(args) {
  const { plot, box } = args;
  const at = scroller(args);
  if (!at) return;
  const scale = plot.width / plot.x_range.end;
  const by = inset(args);
  const [left, top] = [(box.left - by) * scale, (-box.top - by) * scale];
  if (Math.abs(left - at.scrollLeft) > 1.5 || Math.abs(top - at.scrollTop) > 1.5) at.scrollTo({ left, top });
}

/** Scroll so that a node is seen, where it is not. @param {any} args @param {number[]} box left, low, right, high */
export function reveal({ plot, scroll }, [left, low, right, high]) {
  const at = scroller({ scroll });
  if (!at) return;
  const scale = plot.width / plot.x_range.end;
  const seen = seenPart(at, scale, [plot.x_range.end, -plot.y_range.start]);
  if (seen.left <= left && right <= seen.right && seen.bottom <= low && high <= seen.top) return;
  at.scrollTo({
    left: ((left + right) / 2) * scale - at.clientWidth / 2,
    top: (-(low + high) / 2) * scale - at.clientHeight / 2,
  });
}

/** What an event on the map does; whether it was one. @param {any} args @param {any} source */
export function onMap(args, source) {
  if (source === args.box) {
    lead(args);
    return true;
  }
  if (source.origin !== args.map) return false;
  const at = scroller(args);
  const scale = args.plot.width / args.plot.x_range.end;
  if (at && source.event_name === "tap") {
    at.scrollTo({ left: source.x * scale - at.clientWidth / 2, top: -source.y * scale - at.clientHeight / 2 });
  }
  return true;
}

/** Make the map follow, and answer the keyboard. @param {any} args */
export function layMap(args) {
  const at = scroller(args);
  if (at && !at.dataset.gibbsiteMap) {
    at.dataset.gibbsiteMap = "true";
    at.addEventListener("scroll", () => follow(args), { passive: true });
    new ResizeObserver(() => follow(args)).observe(at);
  }
  const root = args.map.visible ? shownView(args.map)?.shadow_el : null;
  if (root && !root.querySelector(".gm")) {
    const style = document.createElement("style");
    style.textContent =
      ".gm { position: absolute; inset: 0; pointer-events: none; outline: none; border-radius: 4px; }" +
      ".gm:focus-visible { outline: 3px solid #c2185b; outline-offset: 1px; }";
    const keys = document.createElement("div");
    keys.className = "gm";
    keys.tabIndex = 0;
    keys.setAttribute("role", "application");
    keys.setAttribute("aria-label", "Map of the graph: the arrow keys move the part that is shown");
    keys.addEventListener("keydown", (event) => {
      const box = scroller(args);
      const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!box || !way) return;
      box.scrollBy({ left: way[0] * SHARE * box.clientWidth, top: way[1] * SHARE * box.clientHeight });
      event.preventDefault();
      event.stopPropagation();
    });
    root.append(style, keys);
  }
  follow(args);
}
