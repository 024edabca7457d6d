import assert from "node:assert/strict";
import { test } from "node:test";
import { beginning, columnsAt, partOf } from "../../host/replay.mjs";

test("the columns of a stage are numbers, and what is not there is none", () => {
  const tables = { trace: { draw: [[0], [0, 8]], "chain 0": [[1.5], [1.5, null]], label: [["mu"], ["mu", "mu"]] } };
  const { trace } = columnsAt({ tables, stages: [] }, 1);
  assert.deepEqual(trace.columns, { draw: [0, 8], "chain 0": [1.5, NaN], label: ["mu", "mu"] });
  assert.equal(columnsAt({ tables, stages: [] }, 0).trace.stamp, 0);
});

test("a play begins where the slider is, and at the end from the start", () => {
  assert.equal(beginning(4, 31), 4);
  assert.equal(beginning(31, 31), 0);
});

test("models are found in their own part of a document", () => {
  const [one, other] = [{ name: "row 0", of: 1 }, { name: "row 0", of: 2 }];
  assert.equal(partOf({ references: () => new Set([one]) }).get_model_by_name("row 0"), one);
  assert.equal(partOf({ references: () => new Set([other]) }).get_model_by_name("row 0"), other);
  assert.equal(partOf({ references: () => new Set([other]) }).get_model_by_name("row 1"), null);
});
