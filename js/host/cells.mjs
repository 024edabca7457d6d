// A line of code goes to a new cell of the notebook below the view, or, where a front end gives no way there, to the
// clipboard.

import { typeBelow } from "./below.mjs";

/** @typedef {{id?: string, outputs?: any, toJSON?: () => any}} Cell */

/** The place of the cell that holds a view, by the mark of its static twin. @param {Iterable<any>} cells
 * @param {string} twin */
export function cellOf(cells, twin) {
  return [...cells].findIndex((cell) => JSON.stringify(cell.outputs?.toJSON?.() ?? []).includes(twin));
}

/** @param {any} model the widget's @param {string} code @param {Element} [view] the element that shows the view
 * @returns {Promise<string>} what to say of it */
export async function writeCell(model, code, view) {
  const book = model.widget_manager?.context?.model;
  const at = book?.sharedModel?.insertCell ? cellOf(book.cells, model.get("_twin")) : -1;
  if (at >= 0) {
    const fresh = { cell_type: "code", source: code, metadata: { trusted: true } };
    book.sharedModel.insertCell(at + 1, fresh);
    return "written into a new cell below";
  }
  // Notebooks on one kernel share the widgets' manager, which knows the first of them alone.
  if (view && (await typeBelow(view, code))) return "written into a new cell below";
  try {
    await navigator.clipboard.writeText(code);
    return "copied: paste it into a cell";
  } catch {
    return "select the line and copy it: this page may not";
  }
}
