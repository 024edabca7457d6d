import assert from "node:assert/strict";
import { test } from "node:test";
import { after } from "../../graph/events.mjs";
import { legendOf, panelHtml, panelOf } from "../../graph/panel.mjs";
import { freshState, highlight, stepWords, turnedTo } from "../../graph/state.mjs";
import { viewOf } from "../../graph/view.mjs";

/** Two switches, a → b → x ← mu, of which a is summed out first. */
const STORE = {
  views: {
    folded: {
      nodes: {
        name: ["a", "b", "mu", "x"],
        kind: ["latent", "latent", "latent", "observed"],
        discrete: [1, 1, 0, 0],
        x: [50, 50, 150, 100],
        y: [20, 80, 80, 140],
        w: [60, 60, 60, 60],
        h: [40, 40, 40, 40],
        title: ["a", "b", "mu", "x"],
        text: ["", "", "", ""],
      },
      edges: { start: [0, 1, 2], end: [1, 3, 3], points: [[50, 40, 50, 60], [50, 100, 90, 120], [150, 100, 110, 120]] },
      plates: { x: [], y: [], width: [], height: [], label_x: [], label_y: [], label: [], align: [] },
      size: [200, 160, 200, 160, 14, 11],
    },
  },
  start: "folded",
  told: { a: { summed: 1 }, b: { summed: 2, near: [1] }, mu: {}, x: { near: [2] } },
  steps: ["sum out a given b", "sum out b"],
  colours: {
    fill: { latent: "blue", observed: "amber", summed: "white" },
    line: { latent: "navy", observed: "brown", summed: "red" },
    level: { data: "grey", model: "sand", generated: "green" },
    dash: { summed: [9, 3, 2, 3], deterministic: [5, 3] },
    edge: "#666666",
  },
};
const VIEW = viewOf(STORE, "folded");
const START = freshState("folded");

/** @param {number} active */
const press = (active) => ({ name: "graph-steps", active });

test("what is summed out has a look of its own, and a legend", () => {
  const { nodes } = highlight(VIEW, START, STORE.colours);
  assert.deepEqual(nodes.fill, ["white", "white", "blue", "amber"]);
  assert.deepEqual(nodes.line, ["red", "red", "navy", "brown"]);
  assert.deepEqual(nodes.dash, [[9, 3, 2, 3], [9, 3, 2, 3], [], []]);
  assert.match(panelHtml("", "", legendOf(STORE.colours)), /dashed red.*summed out/);
  assert.match(panelOf(VIEW.facts, "b"), /<dt>summed out<\/dt><dd>at step 2/);
  assert.doesNotMatch(panelOf(VIEW.facts, "mu"), /summed out/);
});

test("steps are gone through one by one: what is gone, what goes, what it meets, what stays", () => {
  const first = after(START, press(1), VIEW, STORE);
  assert.equal(stepWords(first, STORE.steps), "Step 1 of 2: sum out a given b");
  assert.deepEqual(highlight(VIEW, first, STORE.colours).nodes.alpha, [1, 1, 0.5, 0.5]);
  assert.equal(highlight(VIEW, first, STORE.colours).nodes.width[0], 3.4);
  const second = after(first, press(2), VIEW, STORE);
  const { nodes, edges } = highlight(VIEW, second, STORE.colours);
  assert.deepEqual(nodes.alpha, [0.1, 1, 0.5, 1]);
  assert.deepEqual(edges.alpha, [0.1, 1, 0.5]);
  assert.equal(after(second, press(2), VIEW, STORE), null);
  assert.equal(turnedTo(second, "folded").step, 2);
  const back = after(second, press(0), VIEW, STORE);
  assert.equal(stepWords(back, STORE.steps), "");
  assert.deepEqual(highlight(VIEW, back, STORE.colours).nodes.alpha, [1, 1, 1, 1]);
});

test("hovering shows the Markov blanket in the middle of the steps, too", () => {
  const at = { ...after(START, press(2), VIEW, STORE), hovered: "b" };
  assert.deepEqual(highlight(VIEW, at, STORE.colours).nodes.alpha, [1, 1, 1, 1]);
});
