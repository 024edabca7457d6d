// A new cell below a view, as a person makes it who has the mouse alone: JupyterLab's own button makes the cell, and
// the line is pasted there.

const PATIENCE = 3000; // milliseconds until the new cell's editor is there
const STEP = 50;
const BUTTON = '[data-command="notebook:insert-cell-below"]';

/** Wait for what a page comes to show. @template T @param {() => T|null|undefined} look @returns {Promise<T|null>} */
async function appeared(look) {
  for (let waited = 0; waited < PATIENCE; waited += STEP) {
    const found = look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, STEP));
  }
  return null;
}

/** Press a button of JupyterLab's, of which some answer to the press and some to the release. @param {Element} button */
function press(button) {
  const inner = button.shadowRoot?.querySelector("button") ?? button;
  const how = { bubbles: true, cancelable: true, composed: true, button: 0 };
  for (const kind of ["mousedown", "mouseup", "click"]) inner.dispatchEvent(new MouseEvent(kind, how));
}

/** Put code into a new cell below the one that holds a view; false where the page has no such cell or button.
 * @param {Element} view @param {string} code */
export async function typeBelow(view, code) {
  const cell = view.closest(".jp-Notebook .jp-Cell");
  const book = cell?.closest(".jp-Notebook");
  const button = cell?.querySelector(BUTTON) ?? cell?.closest(".jp-NotebookPanel")?.querySelector(BUTTON);
  // the button acts on the active cell: that of the view, since one has clicked there
  if (!cell || !book || !button || !cell.classList.contains("jp-mod-active")) return false;
  press(button);
  const editor = await appeared(() => {
    const active = book.querySelector(".jp-Cell.jp-mod-active");
    return active === cell ? null : active?.querySelector(".cm-content");
  });
  if (!editor) return false;
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", code);
  editor.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  return Boolean(await appeared(() => editor.textContent?.includes(code.split("\n")[0])));
}
