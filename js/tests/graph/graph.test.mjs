import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { unpacked } from "../../host/packed.mjs";
import { onRoom, scaleOf } from "../../graph/fit.mjs";
import { viewOf } from "../../graph/view.mjs";
import { spoken } from "../../graph/keys.mjs";
import { activeTrail, blanketOf, joined, levelsOf, search } from "../../graph/model.mjs";
import { panelOf } from "../../graph/panel.mjs";
import { arrowHead, badgePlace, outline, smooth } from "../../graph/shapes.mjs";
import { answer, clicked, freshState, highlight, neighbour, nodeAt, plateAt, roleOf } from "../../graph/state.mjs";

/** A mixture, w → z → x ← mu, as Python sends it. */
const STORE = {
  views: {
    folded: {
      nodes: {
        name: ["w", "mu", "z", "x"],
        kind: ["latent", "latent", "latent", "observed"],
        discrete: [0, 0, 1, 0],
        x: [50, 150, 50, 100],
        y: [20, 20, 80, 140],
        w: [60, 60, 60, 60],
        h: [40, 40, 40, 40],
        title: ["w [3]", "mu [3]", "z", "x"],
        text: ["Dirichlet", "Normal", "", "Normal"],
      },
      edges: { start: [0, 2, 1], end: [2, 3, 3], points: [[50, 40, 50, 60], [50, 100, 90, 120], [150, 40, 110, 120]] },
      plates: { x: [], y: [], width: [], height: [], label_x: [], label_y: [], label: [], align: [] },
      size: [200, 160, 200, 160, 14, 11],
    },
  },
  start: "folded",
  told: {
    w: { shape: [3], kernel: "Conjugate", reason: "Dirichlet", statement: "Dirichlet(<b>)" },
    mu: {},
    z: { discrete: true, plates: ["n"], blocked: "" },
    x: { line: 7 },
  },
  colours: {
    fill: { latent: "blue", observed: "amber" },
    line: { latent: "navy", observed: "brown" },
    level: { data: "grey", model: "sand", generated: "green" },
    edge: "#666666",
  },
};
const VIEW = viewOf(STORE, "folded");
const FACTS = VIEW.facts;
const COLOURS = STORE.colours;

test("what can be read so is fitted to its page, what is wide for it offers it, and a choice is kept", () => {
  assert.deepEqual(scaleOf(400, 300, 970, null), { large: false, fitted: false, left: 616, tall: false, scale: 1 });
  const wide = scaleOf(1500, 370, 970, null);
  assert.ok(wide.large && wide.fitted && wide.scale * 1500 <= 970);
  const narrow = scaleOf(900, 370, 460, null); // of which no half would be seen
  assert.ok(narrow.large && !narrow.fitted && narrow.scale === 1);
  const asked = scaleOf(900, 370, 460, true);
  assert.ok(asked.fitted && asked.scale * 900 <= 460);
  assert.ok(!scaleOf(1500, 370, 970, false).fitted);
});

test("a drawing is laid out anew where its page becomes wider or narrower", () => {
  const page = { clientWidth: 970 };
  let seen = () => {};
  globalThis.ResizeObserver = class { constructor(call) { seen = call; } observe() {} };
  const plot = { document: { gibbsiteBox: page } };
  const calls = [];
  onRoom(plot, () => calls.push(page.clientWidth));
  for (const width of [970, 966, 460, 460]) {
    page.clientWidth = width;
    seen();
  }
  assert.deepEqual(calls, [460]);
  delete globalThis.ResizeObserver;
});

test("a store comes out as it was packed", async () => {
  const text = deflateSync(JSON.stringify(STORE)).toString("base64");
  assert.deepEqual(await unpacked(text), STORE);
});

test("neighbours, blankets and levels follow from the edges", () => {
  assert.deepEqual(FACTS.x.parents, ["mu", "z"]);
  assert.deepEqual(FACTS.z.children, ["x"]);
  assert.deepEqual(FACTS.z.blanket, ["w", "mu", "x"]);
  assert.deepEqual(FACTS.w.blanket, ["z"]);
  const chain = joined(["a", "d", "b", "new", "k"], ["latent", "deterministic", "observed", "latent", "data"],
    [0, 1, 1, 4], [1, 2, 3, 2]);
  assert.deepEqual(blanketOf(chain, "a"), ["b", "new"]);
  assert.deepEqual(levelsOf(chain), { a: "model", d: "model", b: "model", new: "generated", k: "data" });
});

test("names of JavaScript's own properties are names like others", () => {
  const graph = joined(["constructor", "__proto__"], ["latent", "observed"], [0], [1]);
  assert.deepEqual(blanketOf(graph, "constructor"), ["__proto__"]);
});

test("a node is found at a point, and nothing between nodes", () => {
  assert.equal(nodeAt(FACTS, 50, -20), "w");
  assert.equal(nodeAt(FACTS, 80, -100), "z");
  assert.equal(nodeAt(FACTS, 100, -60), null);
});

test("hovering lights exactly the blanket and tells parents from children", () => {
  const { nodes, edges } = highlight(VIEW, { ...freshState(), hovered: "z" }, COLOURS);
  assert.deepEqual(nodes.lit, [1, 1, 0, 1]);
  assert.deepEqual(nodes.role, ["parent", "co-parent", "self", "child"]);
  assert.notEqual(edges.colour[0], edges.colour[1]);
  const w = highlight(VIEW, { ...freshState(), hovered: "w" }, COLOURS);
  assert.deepEqual(w.nodes.lit, [0, 0, 1, 0]);
  assert.ok(w.nodes.alpha[1] < 0.5 && w.nodes.alpha[2] === 1);
  assert.equal(roleOf(FACTS, "w", "mu"), "");
});

test("nothing hovered: everything at full strength", () => {
  const { nodes, edges } = highlight(VIEW, freshState(), COLOURS);
  assert.deepEqual(nodes.alpha, [1, 1, 1, 1]);
  assert.deepEqual(edges.alpha, [1, 1, 1]);
});

test("observed colliders open trails, given nodes close them", () => {
  assert.deepEqual(activeTrail(FACTS, "w", "mu", []), ["w", "z", "x", "mu"]);
  assert.deepEqual(activeTrail(FACTS, "w", "mu", ["z"]), []);
  const latent = { ...FACTS, x: { kind: "latent", parents: FACTS.x.parents, children: [] } };
  assert.deepEqual(activeTrail(latent, "w", "mu", []), []);
});

test("a closed plate lets every dependence pass and belongs to the model", () => {
  const graph = joined(["w", "mu", "plate n"], ["latent", "latent", "plate"], [0, 1], [2, 2]);
  assert.deepEqual(activeTrail(graph, "w", "mu", []), ["w", "plate n", "mu"]);
  assert.deepEqual(blanketOf(graph, "w"), ["mu", "plate n"]);
  assert.equal(levelsOf(graph)["plate n"], "model");
});

test("a plate is found by its label", () => {
  const plates = { name: ["n", "m"], label: ["n: 40", "m: 2"], label_x: [100, 200], label_y: [-90, -90] };
  const view = { plates: { ...plates, align: ["right", "left"] } };
  assert.equal(plateAt(view, 80, -86), "n");
  assert.equal(plateAt(view, 210, -86), "m");
  assert.equal(plateAt(view, 150, -86), null);
  assert.equal(plateAt(view, 80, -50), null);
});

test("shift asks about a second node, ctrl changes what is given, a click on nothing clears", () => {
  let state = clicked(freshState(), "w", {});
  state = clicked(state, "mu", { shift: true });
  assert.match(answer(FACTS, state), /depend on each other given the data: through w – z – x – mu/);
  const lines = highlight(VIEW, state, COLOURS).edges.colour;
  assert.equal(new Set(lines).size, 1);
  state = clicked(state, "z", { ctrl: true });
  assert.match(answer(FACTS, state), /independent given the data, z/);
  assert.deepEqual(clicked(state, "z", { ctrl: true }).given, []);
  assert.equal(clicked(state, null, {}).selected, null);
});

test("search finds parts of names, exact ones first", () => {
  assert.deepEqual(search({ mu_0: 1, mu: 1, z: 1 }, "MU"), ["mu", "mu_0"]);
  assert.deepEqual(search(FACTS, "  "), []);
});

test("levels recolour the nodes", () => {
  const { nodes } = highlight(VIEW, { ...freshState(), byLevel: true }, COLOURS);
  assert.deepEqual(nodes.fill, ["sand", "sand", "sand", "sand"]);
});

test("arrows go to the nearest node in their direction, and stay where there is none", () => {
  assert.equal(neighbour(FACTS, "w", "ArrowRight"), "mu");
  assert.equal(neighbour(FACTS, "w", "ArrowDown"), "z");
  assert.equal(neighbour(FACTS, "z", "ArrowDown"), "x");
  assert.equal(neighbour(FACTS, "w", "ArrowUp"), "w");
});

test("the panel escapes what the model's names and texts hold", () => {
  const html = panelOf(FACTS, "w");
  assert.ok(html.includes("Dirichlet(&lt;b&gt;)") && !html.includes("(<b>"));
  assert.ok(html.includes("<b>Conjugate</b>: Dirichlet") && html.includes("in every step"));
  const formula = { conditional: "p(w | z) ∝ <b>", typeset: "<i>p</i>(<i>w</i>)", latex: "p(w)" };
  const typeset = panelOf({ ...FACTS, w: { ...FACTS.w, told: formula } }, "w");
  assert.ok(typeset.includes("<i>p</i>(<i>w</i>)") && typeset.includes("∝ &lt;b&gt;"));
  assert.ok(panelOf(FACTS, "x").includes("line 7"));
});

test("a node is described in words", () => {
  assert.equal(spoken(FACTS, "z", "✓ ESS 400"), "z: latent · discrete · in plate n; reads w; read by x; ✓ ESS 400");
});

test("shapes: discrete nodes are hexagons, lines arrive upright, heads end where lines do", () => {
  assert.equal(outline("latent", true, 0, 0, 60, 40).length, 6);
  assert.equal(outline("latent", false, 0, 0, 60, 40).length, 36);
  const line = smooth([[0, 0], [40, 50]]);
  assert.deepEqual(line[line.length - 1], [40, 50]);
  assert.deepEqual(arrowHead(line)[0], [40, 50]);
  assert.equal(smooth([[5, 0], [5, 50]]).length, 2);
});

test("a badge stands beside the lines that arrive, and inside the drawing", () => {
  assert.deepEqual(badgePlace(100, 120, [100], 400), [107, "left"]);
  assert.deepEqual(badgePlace(300, 120, [300, 306], 380), [293, "right"]); // no room at the right
  assert.deepEqual(badgePlace(100, 120, [90, 110], 400), [156, "right"]); // on both sides: over the lines
  assert.deepEqual(badgePlace(100, 300, [100], 400), [158, "left"]); // ends where a wide node does
  assert.deepEqual(badgePlace(200, 70, [200], 400), [231, "right"]); // over a narrow one
  assert.deepEqual(badgePlace(200, 80, [], 400), [148, "left"]);
});
