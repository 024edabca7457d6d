import assert from "node:assert/strict";
import { test } from "node:test";
import { typeBelow } from "../../host/below.mjs";

/** A notebook whose button makes a cell below the active one. @param {boolean} active whether that is the view's */
function notebook(active) {
  const editor = { textContent: "", dispatchEvent: ({ clipboardData }) => (editor.textContent = clipboardData.text) };
  const fresh = { querySelector: () => editor };
  const book = { now: undefined, querySelector: () => book.now };
  const pressed = [];
  const button = { dispatchEvent: ({ type }) => { pressed.push(type); book.now = fresh; } };
  const cell = {
    classList: { contains: () => active },
    querySelector: () => button,
    closest: () => book,
  };
  book.now = cell;
  return { view: { closest: () => cell }, editor, pressed };
}

test("the line is pasted into the cell that JupyterLab's button makes below the view", async () => {
  globalThis.MouseEvent ??= class { constructor(type) { this.type = type; } };
  globalThis.DataTransfer ??= class { setData(_, text) { this.text = text; } };
  globalThis.ClipboardEvent ??= class { constructor(_, how) { Object.assign(this, how); } };
  const { view, editor, pressed } = notebook(true);
  assert.equal(await typeBelow(view, "a = 1\nb = 2"), true);
  assert.equal(editor.textContent, "a = 1\nb = 2");
  assert.ok(pressed.includes("click"));
});

test("nothing is pressed where another cell is the active one, or there is no notebook", async () => {
  const { view, pressed } = notebook(false);
  assert.equal(await typeBelow(view, "a = 1"), false);
  assert.deepEqual(pressed, []);
  assert.equal(await typeBelow({ closest: () => null }, "a = 1"), false);
});
