import assert from "node:assert/strict";
import { test } from "node:test";
import { plateKeys } from "../../graph/keys.mjs";
import { isDrawn, nearest } from "../../graph/forms.mjs";
import { badgesOf, freshState, toggledPlate, turnedTo } from "../../graph/state.mjs";
import { viewOf } from "../../graph/view.mjs";

/** Two plates beside each other, as Python sends them. */
const COLUMNS = {
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
};

/** The columns' rows at some places. */
const at = (columns, rows) => Object.fromEntries(Object.entries(columns).map(([k, v]) => [k, rows.map((i) => v[i])]));

/** A form with the members of one plate as the node in the place of the first of them. */
function shut(plate, first, second, rows, start, end, boxes) {
  const nodes = at(COLUMNS.nodes, rows);
  const i = rows.indexOf(first);
  const [a, b] = [COLUMNS.nodes.name[first], COLUMNS.nodes.name[second]];
  nodes.name[i] = nodes.title[i] = `plate ${plate}`;
  nodes.kind[i] = "plate";
  return {
    nodes, edges: { start, end, points: start.map(() => [0, 0, 10, 10]) }, plates: at(COLUMNS.plates, boxes), size: COLUMNS.size,
    closable: boxes.map((b) => COLUMNS.plates.name[b]), merged: { [`plate ${plate}`]: { shut: [plate], members: [a, b] } },
    told: { [`plate ${plate}`]: { plate: true, stands: [a, b], updates: "a by NUTS" } },
  };
}

const P = shut("p", 1, 2, [0, 1, 3, 4], [0, 0, 2], [1, 2, 3], [1]);
const BOTH = shut("p", 1, 2, [0, 1, 3], [0, 0], [1, 2], []);
BOTH.nodes.name[2] = "plate q";
BOTH.nodes.kind[2] = "plate";
BOTH.merged["plate q"] = { shut: ["q"], members: ["c", "d"] };
const STORE = {
  views: { folded: { ...COLUMNS, closable: ["p", "q"], sets: { p: 0, "p\nq": 1 }, forms: [P, BOTH] } },
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

test("of sets that were not drawn the nearest is shown, as far as the plate that was turned goes", () => {
  const { folded } = STORE.views;
  assert.ok(isDrawn(folded, ["q", "p"]) && isDrawn(folded, []) && !isDrawn(folded, ["q"]));
  assert.deepEqual(nearest(folded, ["q", "p"], "q"), ["q", "p"]);
  assert.deepEqual(nearest(folded, ["q"], "q"), ["p", "q"]);
  assert.deepEqual(nearest(folded, ["q"], "p"), []);
  assert.deepEqual(nearest(folded, ["q"], undefined), []);
});
