import assert from "node:assert/strict";
import { test } from "node:test";
import { plateKeys } from "../../graph/keys.mjs";
import { placed } from "../../graph/layout.mjs";
import { closable, closedGraph } from "../../graph/plates.mjs";
import { smooth } from "../../graph/shapes.mjs";
import { badgesOf, freshState, toggledPlate, turnedTo } from "../../graph/state.mjs";
import { viewOf } from "../../graph/view.mjs";

/** A generator of numbers in [0, 1) with a seed (Park and Miller 1988). */
function generator(seed) {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

/** @param {string} name @param {string[]} plates */
function item(name, plates = [], more = {}) {
  return {
    name, kind: "latent", discrete: false, w: 30 + 9 * name.length, h: 50, title: name, text: "Normal", x: 0, plates,
    within: plates, shape: [], members: [name], shut: [], ...more,
  };
}

const NESTED = [
  { name: "o", size: 3, parent: null },
  { name: "p", size: 4, parent: "o" },
  { name: "r", size: 9, parent: null },
];

/** A random graph whose nodes lie in plates o ⊃ p, and r. */
function random(next, n) {
  const items = Array.from({ length: n }, (_, i) => {
    const u = next();
    const plates = u < 0.2 ? ["o"] : u < 0.4 ? ["o", "p"] : u < 0.6 ? ["r"] : [];
    return item(`v${i}`, plates, { x: 400 * next() });
  });
  const edges = [];
  for (let i = 1; i < n; i++) {
    for (let k = 0; k < 2; k++) if (next() < 0.7) edges.push([`v${Math.floor(next() * i)}`, `v${i}`]);
  }
  const pairs = [...new Map(edges.map((e) => [e.join(), e])).values()];
  const used = NESTED.filter((p) => items.some((i) => i.plates.includes(p.name)));
  return { items, edges: pairs, plates: used };
}

function boxes({ items }, at) {
  return items.map((i, k) => ({
    name: i.name, left: at.x[k] - i.w / 2, right: at.x[k] + i.w / 2, top: at.y[k] - i.h / 2, low: at.y[k] + i.h / 2,
  }));
}

test("drawn graphs have nodes apart, edges that run down and miss other nodes, plates around their own", () => {
  const next = generator(7);
  let [plates, strangers] = [0, 0];
  for (let trial = 0; trial < 60; trial++) {
    const graph = random(next, 3 + Math.floor(next() * 25));
    const closed = closable(graph).filter(() => next() < 0.4);
    const drawn = closedGraph(graph, closed);
    const at = placed(drawn);
    const rects = boxes(drawn, at);
    const of = new Map(rects.map((r) => [r.name, r]));
    rects.forEach((a, i) => {
      assert.ok(a.left >= 0 && a.top >= 0 && a.right <= at.width && a.low <= at.height);
      for (const b of rects.slice(i + 1)) {
        assert.ok(a.right <= b.left || b.right <= a.left || a.low <= b.top || b.low <= a.top, `${a.name} ${b.name}`);
      }
    });
    drawn.edges.forEach(([a, b], k) => {
      assert.ok(of.get(a).low < of.get(b).top);
      const flat = at.points[k];
      const points = flat.flatMap((x, i) => (i % 2 ? [] : [[x, flat[i + 1]]]));
      for (const [x, y] of smooth(points)) {
        for (const r of rects) {
          if (r.name === a || r.name === b) continue;
          assert.ok(!(r.left + 1 < x && x < r.right - 1 && r.top + 1 < y && y < r.low - 1), `${a} ${b} ${r.name}`);
        }
      }
    });
    for (const { name, plates: own } of drawn.items) {
      const r = of.get(name);
      for (const [plate, box] of at.boxes) {
        const [right, low] = [box.left + box.width, box.top + box.height];
        const inside = r.left > box.left && r.right < right && r.top > box.top && r.low < low;
        const apart = r.right < box.left || r.left > right || r.low < box.top || r.top > low;
        const mine = own.includes(plate);
        if (mine) assert.ok(inside, `${name} in ${plate}`);
        else strangers += Number(!apart);
        plates += 1;
      }
    }
  }
  assert.ok(plates > 500 && strangers < 0.02 * plates, `${strangers} of ${plates}`);
});

test("a crossing, a nested and a chosen set of plates close, in any order, and open again", () => {
  const items = [item("g"), item("a", ["p"]), item("b", ["q"]), item("y", ["p", "q"], { kind: "observed" })];
  const edges = [["g", "b"], ["a", "y"], ["b", "y"]];
  const plates = [{ name: "p", size: 4, parent: null }, { name: "q", size: 3, parent: null }];
  const graph = { items, edges, plates };
  const names = (closed) => closedGraph(graph, closed).items.map((i) => i.name);
  assert.deepEqual(closable(graph), ["p", "q"]);
  assert.deepEqual(names(["p"]), ["g", "plate p", "b"]);
  assert.deepEqual(names(["q"]), ["g", "a", "plate q"]);
  assert.deepEqual(names(["p", "q"]), ["g", "plates p, q"]);
  assert.deepEqual(names(["q", "p"]), names(["p", "q"]));
  const half = closedGraph(graph, ["q"]);
  assert.deepEqual(closable(half), ["p"]); // a part of p is in the closed q
  assert.equal(closedGraph(graph, ["p", "q"]).items[1].title, "plates p, q [4 × 3]");
  const inner = { ...graph, plates: [plates[0], { name: "q", size: 3, parent: "p" }] };
  inner.items = [item("g"), item("a", ["p"]), item("b", ["p", "q"]), item("y", ["p", "q"])];
  assert.deepEqual(closedGraph(inner, ["q"]).items.map((i) => [i.name, i.plates]), [["g", []], ["a", ["p"]], ["plate q", ["p"]]]);
  assert.deepEqual(closedGraph(inner, ["q", "p"]).items.map((i) => i.name), ["g", "plate p"]);
});

/** Two plates beside each other, as Python sends them. */
const STORE = {
  views: {
    folded: {
      nodes: {
        name: ["m", "a", "b", "c", "d"],
        kind: ["latent", "latent", "observed", "latent", "observed"],
        discrete: [0, 0, 0, 1, 1],
        x: [150, 60, 60, 240, 240],
        y: [30, 110, 190, 110, 190],
        w: [60, 60, 60, 60, 60],
        h: [50, 50, 50, 50, 50],
        title: ["m", "a", "b", "c", "d"],
        text: ["", "", "", "", ""],
      },
      edges: { start: [0, 1, 0, 3], end: [1, 2, 3, 4], points: [[], [], [], []] },
      plates: {
        name: ["p", "q"], x: [10, 200], y: [-230, -230], width: [100, 100], height: [150, 150], label_x: [100, 290],
        label_y: [-222, -222], label: ["p: 4", "q: 3"], align: ["right", "right"], plate_size: [4, 3], parent: ["", ""],
      },
      size: [300, 240, 300, 240, 14, 11],
    },
  },
  start: "folded",
  told: { a: { plates: ["p"], kernel: "NUTS" }, b: { plates: ["p"] }, c: { plates: ["q"] }, d: { plates: ["q"] } },
  colours: { fill: {}, line: {}, level: {}, edge: "#666666" },
};

test("a view with one of two plates closed keeps the other, and its sides", () => {
  const view = viewOf(STORE, "folded", ["p"]);
  assert.deepEqual(view.nodes.name, ["m", "plate p", "c", "d"]);
  assert.deepEqual(view.plates.label, ["q: 3"]);
  assert.equal(view.facts["plate p"].kind, "plate");
  assert.deepEqual(view.facts["plate p"].told.stands, ["a", "b"]);
  assert.equal(view.facts["plate p"].told.updates, "a by NUTS");
  assert.deepEqual(view.facts.m.children, ["plate p", "c"]);
  assert.ok(view.nodes.x[1] < view.nodes.x[2]);
  assert.deepEqual(toggledPlate(view, ["p"], "q"), ["p", "q"]);
  assert.deepEqual(toggledPlate(view, ["p"], "plate p"), []);
  assert.equal(toggledPlate(view, ["p"], "m"), null);
  assert.deepEqual(plateKeys(view).map((k) => k.label), ["plate p, closed", "plate q: 3, open"]);
  assert.deepEqual(turnedTo({ ...freshState(), byLevel: true }, "folded", ["p"]).closed, ["p"]);
});

test("a closed plate carries the state of its worst member", () => {
  const view = viewOf(STORE, "folded", ["p", "q"]);
  const run = { name: ["a", "b", "c", "d"], words: ["✓ ESS 900", "! R-hat 1.4", "✓ ESS 800", "✓ ESS 700"],
    colour: ["good", "bad", "good", "good"] };
  assert.deepEqual(badgesOf(view, run, ["good", "wait", "bad"]), [
    ["", ""], ["! R-hat 1.4 · 1 of 2 ✓", "bad"], ["✓ all 2", "good"],
  ]);
});
