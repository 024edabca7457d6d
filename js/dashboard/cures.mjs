// What to do about a run: go on with it, or try a cure beside it and see both compared.

import { element } from "../host/host.mjs";

/**
 * @typedef {{state: string, words: string, rows?: [string, string, string, number][], agreement?: string}} Trial
 * @typedef {{words: string, expects: string, code: string, trial: Trial|null}} Cure
 * @typedef {{note?: string, resume?: boolean, more?: number, cures?: Cure[]}} Cures what Python tells in `_cures`
 */

export const CURES_STYLE = `
.gb-dash .gb-on { display: flex; gap: 8px; align-items: center; margin: 6px 0; flex-wrap: wrap; }
.gb-dash .gb-cure { border-left: 3px solid var(--gb-link); padding: 2px 8px; margin: 6px 0; max-width: 90ch;
  position: relative; }
.gb-dash .gb-cure .gb-do { display: flex; gap: 6px; position: absolute; top: 0; right: 8px; }
.gb-dash .gb-cure summary { cursor: pointer; font-weight: 600; padding-right: 150px; min-height: 26px; }
.gb-dash .gb-cure code { display: block; font: 12px/1.5 var(--jp-code-font-family, ui-monospace, Menlo, monospace);
  white-space: pre-wrap; overflow-wrap: anywhere; background: var(--gb-hover); border-radius: 4px; padding: 2px 6px;
  margin: 3px 0; }
.gb-dash .gb-trial table { width: auto; margin: 2px 0; }
.gb-dash .gb-trial td, .gb-dash .gb-trial th { padding: 1px 12px 1px 0; }
.gb-dash .gb-better { font-weight: 600; }
`;

/** @param {string} words @param {string} act @param {Record<string, string>} data @param {string} [title] */
function button(words, act, data, title) {
  const made = element("button", "", words);
  Object.assign(made.dataset, { act, ...data });
  if (title) made.title = title;
  return made;
}

/** @param {Trial} trial @param {number} i */
function drawTrial(trial, i) {
  const box = element("div", "gb-trial");
  box.setAttribute("aria-live", "polite");
  const line = element("div", trial.state === "failed" ? "gb-bad" : "", trial.words);
  if (trial.state === "trying") line.append(" ", button("stop", "cure", { what: "end", number: String(i), busy: "stopping…" }));
  box.append(line);
  if (trial.rows) {
    const table = element("table");
    const head = element("tr");
    for (const words of ["", "before", "with it"]) head.append(element("th", "", words));
    table.append(head);
    for (const [name, first, second, better] of trial.rows) {
      const row = element("tr");
      row.append(element("td", "", name), element("td", better < 0 ? "gb-better" : "", first));
      row.append(element("td", better > 0 ? "gb-better" : "", better > 0 ? `${second} ✓` : second));
      table.append(row);
    }
    box.append(table);
  }
  if (trial.agreement) box.append(element("div", "gb-hint", trial.agreement));
  return box;
}

/** @param {Cure} cure @param {number} i */
function drawCure(cure, i) {
  const box = element("div", "gb-cure");
  const line = element("div", "gb-do");
  const number = String(i);
  if (cure.trial?.state !== "trying") {
    const words = cure.trial ? "try again" : "try it";
    line.append(button(words, "cure", { what: "try", number, busy: "starting…" }, "a new run in the background, beside this one"));
  }
  line.append(button("write it", "write", { code: cure.code }, "into a new cell below, or to the clipboard"));
  const more = element("details");
  if (i === 0 || cure.trial) more.open = true; // what the others do is told on request
  const name = element("summary", "", cure.words);
  name.title = cure.expects;
  more.append(name, element("div", "gb-hint", cure.expects), element("code", "", cure.code));
  box.append(more, line);
  if (cure.trial) box.append(drawTrial(cure.trial, i));
  return box;
}

/** @param {Cures} told @param {string} said what was said of the line that was written last */
export function drawCures(told, said = "") {
  const box = element("div");
  const { note, resume, more, cures = [] } = told;
  if (resume || more) {
    const on = element("div", "gb-on");
    if (resume) on.append(button("Resume", "cure", { what: "resume", number: "0", busy: "going on…" }, "make the draws that are left"));
    if (more) on.append(button(`${more} more`, "cure", { what: "more", number: String(more), busy: "going on…" }, `${more} more draws per chain of this run`));
    if (note) on.append(element("span", "gb-bad", note));
    box.append(on);
  }
  if (cures.length) box.append(element("div", "gb-title", "what would help, best first"));
  cures.forEach((cure, i) => box.append(drawCure(cure, i)));
  const words = element("div", "gb-note", said);
  words.setAttribute("role", "status");
  box.append(words);
  return box;
}
