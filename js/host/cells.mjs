// A line of code goes to a new cell of the notebook below the view, or, where a front end gives no way there, to the
// clipboard.

/** @typedef {{id?: string, outputs?: any, toJSON?: () => any}} Cell */

/** The place of the cell that holds a view, by the mark of its static twin. @param {Iterable<any>} cells
 * @param {string} twin */
export function cellOf(cells, twin) {
  return [...cells].findIndex((cell) => JSON.stringify(cell.outputs?.toJSON?.() ?? []).includes(twin));
}

/** @param {any} model the widget's @param {string} code @returns {Promise<string>} what to say of it */
export async function writeCell(model, code) {
  const book = model.widget_manager?.context?.model;
  if (book?.sharedModel?.insertCell) {
    const at = cellOf(book.cells, model.get("_twin"));
    const fresh = { cell_type: "code", source: code, metadata: { trusted: true } };
    book.sharedModel.insertCell(at < 0 ? book.cells.length : at + 1, fresh);
    return "written into a new cell below";
  }
  try {
    await navigator.clipboard.writeText(code);
    return "copied: paste it into a cell";
  } catch {
    return "select the line and copy it: this page may not";
  }
}
