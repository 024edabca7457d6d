// The runs of a kernel as a table: go on with one, open it, or set two side by side.

import { element, hostWidget } from "../host/host.mjs";

/**
 * @typedef {{name: string, cells: string[], state: string, resume: boolean, more: number}} RunRow
 * @typedef {{heads: string[], rows: RunRow[], verdict: number, note: string}} RunsTold what Python tells in `_runs`
 */

const RUNS_STYLE = `
.gb-runs { overflow-x: auto; --gb-muted: #6a737d; --gb-hover: #f3f5f7; --gb-good: #1d8a5a; --gb-bad: #c8372d; --gb-warn: #b67700; }
.gb-dark .gb-runs { --gb-muted: #9aa3ad; --gb-hover: #2c3138; --gb-good: #4cc38a; --gb-bad: #ff8a80; --gb-warn: #e0a33a; }
.gb-runs table { border-collapse: collapse; font-size: 12px; font-variant-numeric: tabular-nums; margin: 4px 0; }
.gb-runs th, .gb-runs td { text-align: left; vertical-align: top; padding: 3px 12px 3px 0; border: none; background: transparent; }
.gb-runs th { border-bottom: 1px solid var(--gb-muted); vertical-align: bottom; }
.gb-runs .gb-list td { overflow-wrap: anywhere; }
.gb-runs .gb-list td:nth-child(2) { min-width: 6.5em; }
.gb-runs .gb-list td.gb-long { min-width: 11em; }
.gb-runs .gb-cut { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: hidden; }
.gb-runs .gb-list td:is(.gb-converged, .gb-notyet, .gb-failed, .gb-prior) { min-width: 8.5em; }
.gb-runs .gb-figure { text-align: right; }
.gb-runs td.gb-figure { white-space: nowrap; }
.gb-runs .gb-count { white-space: nowrap; }
.gb-runs tbody tr:hover { background: var(--gb-hover); }
.gb-runs label { display: inline-flex; gap: 5px; align-items: center; white-space: nowrap; cursor: pointer; }
.gb-runs button { font: inherit; font-size: 12px; cursor: pointer; border-radius: 4px; padding: 1px 9px;
  border: 1px solid var(--gb-muted); background: transparent; color: inherit; }
.gb-runs button:hover:enabled { background: var(--gb-hover); }
.gb-runs button:disabled { opacity: .45; cursor: default; }
.gb-runs :is(button, input):focus-visible { outline: 2px solid #2f6fb0; outline-offset: 1px; }
.gb-runs .gb-do { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; margin: 4px 0; }
.gb-runs .gb-note { color: var(--gb-muted); font-size: 12px; }
.gb-runs { container-type: inline-size; }
@container (max-width: 760px) {
  .gb-runs .gb-list thead { display: none; }
  .gb-runs .gb-list, .gb-runs .gb-list tbody { display: block; }
  .gb-runs .gb-list tr { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 2px 12px; padding: 5px 0;
    border-bottom: 1px solid var(--gb-muted); }
  .gb-runs .gb-list :is(.gb-figure, .gb-count) { text-align: left; white-space: normal; }
  .gb-runs .gb-list td { padding: 0; }
  .gb-runs .gb-list td:empty { display: none; }
  .gb-runs .gb-list td[data-head]:not([data-head=""])::before { content: attr(data-head) " "; color: var(--gb-muted); font-weight: 400; }
}
.gb-runs svg { max-width: 100%; height: auto; }
.gb-runs .gb-converged { color: var(--gb-good); font-weight: 600; }
.gb-runs .gb-notyet { color: var(--gb-warn); font-weight: 600; }
.gb-runs .gb-failed { color: var(--gb-bad); font-weight: 600; }
`;

// What is done to runs, to how many of them, and what that does.
const DEEDS = /** @type {[string, number, string][]} */ ([
  ["open", 1, "the posterior of the run that is chosen"],
  ["compare", 2, "ESS/s, R-hat, divergences and estimates of both, side by side"],
  ["overlay", 2, "the posteriors of both, in the same plots"],
]);
const FIGURES = 6; // from this column on, cells are figures
const COUNTS = 4; // a column that keeps to one line
const LONG_WORDS = [2, 3]; // columns of long words

/** @param {RunsTold} told @param {number} i @param {string} state */
function kindOf(told, i, state) {
  if (i === told.verdict) return `gb-${state.replace(" ", "")}`;
  if (i >= FIGURES) return "gb-figure";
  return i === COUNTS ? "gb-count" : LONG_WORDS.includes(i) ? "gb-long" : "";
}

/** A cell of words, which are cut after some lines and say all of it to who hovers; empty ones stay empty.
 * @param {string} kind @param {string} words */
function wordsCell(kind, words) {
  const cell = element("td", kind);
  if (!words) return cell;
  const inner = element("div", "gb-cut", words);
  inner.title = words;
  cell.append(inner);
  return cell;
}

/** Which runs stay chosen when one is clicked: two at most, the oldest makes room.
 * @param {number[]} chosen @param {number} number */
export function choosing(chosen, number) {
  return chosen.includes(number) ? chosen.filter((n) => n !== number) : [...chosen, number].slice(-2);
}

/** @param {RunsTold} told @param {number[]} chosen */
function drawRuns(told, chosen) {
  const table = element("table", "gb-list");
  const head = element("tr");
  told.heads.forEach((words, i) => head.append(element("th", i >= FIGURES ? "gb-figure" : "", words || "run")));
  head.append(element("th"));
  const thead = element("thead");
  thead.append(head);
  const rows = element("tbody");
  told.rows.forEach((run, number) => {
    const line = element("tr");
    run.cells.forEach((words, i) => {
      const cell = wordsCell(kindOf(told, i, run.state), i ? words : "");
      cell.dataset.head = told.heads[i]; // stands before it on narrow pages
      if (i === 0) {
        const label = element("label");
        const box = element("input");
        box.type = "checkbox";
        box.checked = chosen.includes(number);
        box.dataset.run = String(number);
        label.append(box, run.name);
        cell.append(label);
      }
      line.append(cell);
    });
    const last = element("td", "gb-figure");
    for (const [words, what] of /** @type {[string, string][]} */ ([
      ...(run.resume ? [["resume", "resume"]] : []),
      ...(run.more ? [[`${run.more} more`, "more"]] : []),
    ])) {
      const button = element("button", "", words);
      Object.assign(button.dataset, { what, of: String(number) });
      button.setAttribute("aria-label", `${words}: run ${run.name}`);
      last.append(button, " ");
    }
    line.append(last);
    rows.append(line);
  });
  table.append(thead, rows);
  return table;
}

export default hostWidget({
  style: RUNS_STYLE,
  mount({ model, body, send }) {
    body.hidden = true; // there is no plot of its own
    const box = element("div", "gb-runs");
    const table = element("div");
    const deeds = element("div", "gb-do");
    const below = element("div");
    below.setAttribute("aria-live", "polite");
    const buttons = DEEDS.map(([what, , title]) => {
      const button = element("button", "", what);
      button.title = title;
      button.dataset.what = what;
      deeds.append(button);
      return button;
    });
    const note = element("span", "gb-note");
    deeds.append(note);
    box.append(table, deeds, below);
    body.after(box);
    let chosen = /** @type {number[]} */ ([]);
    const paint = () => {
      /** @type {RunsTold} */
      const told = model.get("_runs");
      table.replaceChildren(told.rows.length ? drawRuns(told, chosen) : element("div", "", "no runs yet"));
      buttons.forEach((button, i) => (button.disabled = chosen.length !== DEEDS[i][1]));
      note.textContent = told.note;
    };
    const show = () => {
      below.innerHTML = model.get("_below").html ?? ""; // made by the package, names escaped
    };
    box.addEventListener("click", (event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      const { run, what, of } = target.dataset ?? {};
      if (run !== undefined) {
        chosen = choosing(chosen, Number(run));
        paint();
        /** @type {HTMLElement|null} */ (box.querySelector(`[data-run="${run}"]`))?.focus();
      } else if (what) send("runs", { what, chosen: of === undefined ? chosen : [Number(of)] });
    });
    const heard = /** @type {[string, () => void][]} */ ([["change:_runs", paint], ["change:_below", show]]);
    for (const [event, call] of heard) model.on(event, call);
    paint();
    show();
    return () => {
      for (const [event, call] of heard) model.off(event, call);
    };
  },
});
