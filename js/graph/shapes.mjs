// A laid-out graph as the columns of Bokeh's data sources: outlines, curves, arrow heads. Python sends the
// places of nodes and the points that edges run through; `shapes.py` and `style.py` in
// `gibbsite/graph/drawing` draw the same shapes in the static picture.

/**
 * @typedef {Record<string, any[]>} Columns
 * @typedef {{name: string[], kind: string[], discrete: number[], x: number[], y: number[],
 *   w: number[], h: number[], title: string[], text: string[]}} Places
 * @typedef {{start: number[], end: number[], points: number[][], curved?: boolean}} Lines
 * @typedef {{fill: Record<string, string>, line: Record<string, string>, level: Record<string, string>,
 *   dash?: Record<string, number[]>, edge: string, ink?: string, paper?: string, plate?: string, tint?: Record<string, string>, dark?: Partial<Colours>}} Colours
 * @typedef {[number, number][]} Points
 */

/** @param {number} x @param {number} y @param {number} w @param {number} h @param {number} r @returns {Points} */
function rounded(x, y, w, h, r) {
  /** @type {[number, number, number][]} */
  const corners = [
    [x + w - r, y - h + r, -90],
    [x + w - r, y + h - r, 0],
    [x - w + r, y + h - r, 90],
    [x - w + r, y - h + r, 180],
  ];
  return corners.flatMap(([cx, cy, start]) =>
    [0, 1, 2, 3, 4, 5, 6, 7, 8].map((step) => {
      const angle = ((start + step * 11.25) * Math.PI) / 180;
      return /** @type {[number, number]} */ ([cx + r * Math.cos(angle), cy + r * Math.sin(angle)]);
    }),
  );
}

/** A pill if continuous, a hexagon if discrete, a rectangle if not random; y grows downwards.
 * @param {string} kind @param {boolean} discrete @param {number} x @param {number} y
 * @param {number} width @param {number} height @returns {Points} */
export function outline(kind, discrete, x, y, width, height) {
  const w = width / 2;
  const h = height / 2;
  if (kind === "latent" || kind === "observed") {
    if (!discrete) return rounded(x, y, w, h, Math.min(h, 24));
    const cut = Math.min(14, h);
    return [
      [x - w, y],
      [x - w + cut, y - h],
      [x + w - cut, y - h],
      [x + w, y],
      [x + w - cut, y + h],
      [x - w + cut, y + h],
    ];
  }
  if (kind === "deterministic") return rounded(x, y, w, h, 6);
  return [
    [x - w, y - h],
    [x + w, y - h],
    [x + w, y + h],
    [x - w, y + h],
  ];
}

/** A smooth line through points that leaves and arrives upright. @param {Points} points @returns {Points} */
export function smooth(points, steps = 16) {
  const out = points.slice(0, 1);
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1];
    const [x1, y1] = points[i];
    const bend = (y1 - y0) * 0.45;
    const inner = x0 === x1 ? 1 : steps;
    for (let k = 1; k <= inner; k++) {
      const t = k / inner;
      const s = 1 - t;
      const near = s ** 3 + 3 * s * s * t;
      const far = 3 * s * t * t + t ** 3;
      out.push([
        near * x0 + far * x1,
        near * y0 + far * y1 + 3 * s * s * t * bend - 3 * s * t * t * bend,
      ]);
    }
  }
  return out;
}

/** Points of the cubic Bézier curves with these control points, the last of one the first of the next.
 * @param {Points} points @returns {Points} */
export function bezier(points, steps = 12) {
  const out = points.slice(0, 1);
  for (let i = 0; i + 3 < points.length; i += 3) {
    for (let k = 1; k <= steps; k++) {
      const t = k / steps;
      const s = 1 - t;
      const weights = [s ** 3, 3 * s * s * t, 3 * s * t * t, t ** 3];
      const at = (/** @type {0|1} */ axis) => weights.reduce((sum, w, j) => sum + w * points[i + j][axis], 0);
      out.push([at(0), at(1)]);
    }
  }
  return out;
}

/** The loop at the right of a node whose elements depend on one another.
 * @param {number} x @param {number} y @param {number} width @returns {Points} */
export function loop(x, y, width) {
  const centre = x + width / 2 + 6;
  return Array.from({ length: 26 }, (_, k) => {
    const angle = ((10 * k - 125) * Math.PI) / 180;
    return [centre + 10 * Math.cos(angle), y + 10 * Math.sin(angle)];
  });
}

/** A triangle at the end of a line. @param {Points} points @returns {Points} */
export function arrowHead(points, size = 7) {
  const [[x0, y0], [x1, y1]] = points.slice(-2);
  const length = Math.hypot(x1 - x0, y1 - y0) || 1;
  const ux = (x1 - x0) / length;
  const uy = (y1 - y0) / length;
  const bx = x1 - ux * size;
  const by = y1 - uy * size;
  const half = size * 0.45;
  return [
    [x1, y1],
    [bx - uy * half, by + ux * half],
    [bx + uy * half, by - ux * half],
  ];
}

/** @param {Points[]} lines */
function coordinates(lines) {
  return { xs: lines.map((l) => l.map(([x]) => x)), ys: lines.map((l) => l.map(([, y]) => -y)) };
}

const [BADGE, OVERHANG] = [92, 40];

/** Where a badge over a node begins, beside the lines that arrive there: its place and which way it runs. Over a
 * narrow node it stays above them, so that one sees whose it is.
 * @param {number} x @param {number} width @param {number[]} arrivals @param {number} total width of the drawing
 * @returns {[number, "left"|"right"]} */
export function badgePlace(x, width, arrivals, total) {
  const [first, last] = [Math.min(...arrivals), Math.max(...arrivals)];
  const half = width / 2;
  const fits = last + 7 + BADGE < Math.min(total, x + half + OVERHANG);
  if (last <= x + 6 && fits) return [Math.max(last + 7, x + half - BADGE), "left"];
  if (first >= x - 6 && first - 7 - BADGE > Math.max(0, x - half - OVERHANG)) return [Math.min(first - 7, x - half + BADGE), "right"];
  return [x + half - 4, "right"];
}

/** All columns of a view, upside up for Bokeh (y grows upwards there).
 * @param {Places} places @param {Lines} edges @param {Colours} colours @param {number} total width of the drawing */
export function columnsOf(places, edges, colours, total) {
  const { name, kind, x, y, w, h, text } = places;
  const n = name.length;
  /** @type {number[][]} */
  const arrivals = name.map(() => []);
  edges.points.forEach((flat, i) => {
    if (flat.length && edges.start[i] !== edges.end[i]) arrivals[edges.end[i]].push(flat[flat.length - 2]);
  });
  const badges = name.map((_, i) => badgePlace(x[i], w[i], arrivals[i], total));
  const shapes = name.map((_, i) => outline(kind[i], places.discrete[i] === 1, x[i], y[i], w[i], h[i]));
  const lines = edges.points.map((flat, i) => {
    const [a, b] = [edges.start[i], edges.end[i]];
    if (a === b) return loop(x[a], y[a], w[a]);
    /** @type {Points} */
    const points = [];
    for (let k = 0; k < flat.length; k += 2) points.push([flat[k], flat[k + 1]]);
    return edges.curved ? bezier(points) : smooth(points);
  });
  const m = lines.length;
  return {
    nodes: {
      name,
      ...coordinates(shapes),
      x,
      title: places.title,
      title_y: y.map((v, i) => -(text[i] ? v - 9 : v)),
      words: text,
      text_y: y.map((v) => -(v + 10)),
      badge_x: badges.map(([at]) => at),
      badge_align: badges.map(([, align]) => align),
      badge_y: y.map((v, i) => -(v - h[i] / 2 - 7)),
      fill: kind.map((k) => colours.fill[k]),
      line: kind.map((k) => colours.line[k]),
      dash: kind.map((k) => (k === "deterministic" ? [5, 3] : [])),
      width: Array(n).fill(1.6),
      alpha: Array(n).fill(1),
      lit: Array(n).fill(0),
      role: Array(n).fill(""),
      badge: Array(n).fill(""),
      tint: Array(n).fill(colours.edge),
    },
    edges: {
      start: edges.start.map((i) => name[i]),
      end: edges.end.map((i) => name[i]),
      ...coordinates(lines),
      width: Array(m).fill(1.4),
      alpha: Array(m).fill(1),
      colour: Array(m).fill(colours.edge),
    },
    heads: {
      ...coordinates(lines.map((l) => arrowHead(l))),
      alpha: Array(m).fill(1),
      colour: Array(m).fill(colours.edge),
    },
  };
}

/** Boxes around nodes for finding them: left, low, right, high. @param {Places} places @param {number} i */
export function boxOf(places, i) {
  const { x, y, w, h } = places;
  return [x[i] - w[i] / 2, -y[i] - h[i] / 2, x[i] + w[i] / 2, -y[i] + h[i] / 2];
}
