import assert from "node:assert/strict";
import { test } from "node:test";
import { activeTrail, answer, clicked, freshState, highlight, nodeAt, roleOf, search } from "../graph.mjs";

/** A mixture: w → z → x ← mu, with facts as Python sends them. */
const fact = (kind, parents, children, blanket, box) => ({
  kind, parents, children, blanket, box, level: "model", panel: kind, kernels: [], kernel: "", folded: false,
});
const FACTS = {
  w: fact("latent", [], ["z"], ["z"], [0, -10, 10, 0]),
  mu: fact("latent", [], ["x"], ["z", "x"], [20, -10, 30, 0]),
  z: fact("latent", ["w"], ["x"], ["w", "mu", "x"], [0, -30, 10, -20]),
  x: fact("observed", ["z", "mu"], [], ["mu", "z"], [0, -50, 10, -40]),
};
const VIEW = {
  nodes: { name: ["w", "mu", "z", "x"], fill: ["a", "b", "c", "d"], dash: [[], [], [], []] },
  edges: { start: ["w", "z", "mu"], end: ["z", "x", "x"] },
  facts: FACTS,
};
const COLOURS = { level: { data: "grey", model: "amber", generated: "green" } };

test("a node is found at a point, edges included, and nothing between nodes", () => {
  assert.equal(nodeAt(FACTS, 5, -5), "w");
  assert.equal(nodeAt(FACTS, 10, -20), "z");
  assert.equal(nodeAt(FACTS, 15, -15), null);
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
  const latent = { ...FACTS, x: { ...FACTS.x, kind: "latent" } };
  assert.deepEqual(activeTrail(latent, "w", "mu", []), []);
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
  assert.deepEqual(nodes.fill, ["amber", "amber", "amber", "amber"]);
});
