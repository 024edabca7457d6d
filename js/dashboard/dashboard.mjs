// The dashboard around the plots: progress, Stop, warnings, the table of parameters (which is also their
// chooser), and time by block. All words and numbers come from Python in `_status`; here they are only placed.

import { element, hostWidget } from "../host/host.mjs";

/**
 * @typedef {{text: string, hint?: string, advice?: string}} Warned
 * @typedef {Record<string, any> & {label: string, chosen: string}} Row a scalar; `chosen` is its colour if plotted
 * @typedef {{label: string, detail: string, share: number|null, colour: string}} Block
 * @typedef {{model: string, words: string, colour: string, ended: boolean, stopping: boolean, stop_note: string,
 *   progress: string, message: string, chains: string[], more_chains: number, share: number, warmup_share: number,
 *   warnings: Warned[], stage: string, heads: string[], cells: string[], rows: Row[], blocks: Block[],
 *   timing: string, timing_note: string, labels: string[], slots: number, auto: boolean, note: string,
 *   limits: string, ready: boolean}} Status what Python tells in `_status`
 */

const DASHBOARD_STYLE = `
.gb-dash { --gb-faint: #e9ecef; --gb-muted: #6a737d; --gb-bad: #c8372d; --gb-warn: #b67700; --gb-hover: #f3f5f7;
  --gb-link: #2f6fb0; }
.gb-dark .gb-dash { --gb-faint: #3a4048; --gb-muted: #9aa3ad; --gb-bad: #ff8a80; --gb-warn: #e0a33a;
  --gb-hover: #2c3138; --gb-link: #7db4ec; }
.gb-dash .gb-head { display: flex; align-items: center; gap: 10px; flex-wrap: wrap; margin: 2px 0 4px; }
.gb-dash .gb-name { font-size: 16px; font-weight: 600; }
.gb-dash .gb-pill { color: #fff; border-radius: 10px; padding: 1px 10px; font-weight: 600; font-size: 12px; }
.gb-dash .gb-pill.gb-busy { animation: gb-pulse 1.4s ease-in-out infinite; }
@keyframes gb-pulse { 50% { opacity: .55; } }
.gb-dash button { font: inherit; font-size: 12px; cursor: pointer; border-radius: 4px; padding: 2px 12px;
  border: 1px solid var(--gb-muted); background: transparent; color: inherit; }
.gb-dash button:hover:enabled { background: var(--gb-hover); }
.gb-dash button:disabled { opacity: .55; cursor: default; }
.gb-dash .gb-stop { border-color: var(--gb-bad); color: var(--gb-bad); font-weight: 600; margin-left: auto; }
.gb-dash .gb-aside { margin-left: auto; }
.gb-dash .gb-aside + .gb-stop { margin-left: 0; }
.gb-dash .gb-progress { margin-bottom: 6px; }
.gb-dash .gb-message { color: var(--gb-bad); white-space: pre-wrap; margin-bottom: 6px; }
.gb-dash .gb-chain { display: grid; grid-template-columns: 60px 1fr 200px; align-items: center; gap: 8px;
  font-size: 12px; line-height: 15px; }
.gb-dash .gb-track { height: 8px; border-radius: 4px; background: var(--gb-faint); position: relative; }
.gb-dash .gb-mark { position: absolute; top: -1px; height: 10px; width: 1px; background: currentColor; opacity: .6; }
.gb-dash .gb-stage { color: var(--gb-warn); margin: 6px 0 2px; }
.gb-dash .gb-advice summary { cursor: pointer; color: var(--gb-link); width: fit-content; }
.gb-dash .gb-advice p, .gb-dash .gb-advice ul { margin: 4px 0; max-width: 80ch; }
.gb-dash .gb-advice code { font-size: 12px; }
.gb-dash .gb-measure { margin-top: 4px; }
.gb-dash .gb-fill { height: 100%; border-radius: 4px; transition: width .4s linear; }
.gb-dash .gb-warning { border-left: 3px solid var(--gb-warn); padding: 1px 8px; margin: 5px 0; }
.gb-dash .gb-hint { color: var(--gb-muted); }
.gb-dash .gb-tools { display: flex; align-items: center; gap: 8px; margin: 8px 0 2px; flex-wrap: wrap; }
.gb-dash input { font: inherit; font-size: 12px; padding: 1px 6px; width: 15em; color: inherit;
  background: transparent; border: 1px solid var(--gb-muted); border-radius: 4px; }
.gb-dash .gb-note { color: var(--gb-muted); font-size: 12px; }
.gb-dash .gb-scroll { max-height: 232px; overflow-y: auto; }
.gb-dash table { border-collapse: collapse; font-size: 12px; width: 100%; max-width: 760px;
  font-variant-numeric: tabular-nums; margin: 0; }
.gb-dash th, .gb-dash td { text-align: right; padding: 2px 8px; border: none; background: transparent; }
.gb-dash th { position: sticky; top: 0; font-weight: 600; border-bottom: 1px solid var(--gb-muted);
  background: var(--jp-layout-color0, Canvas); }
.gb-dash th:first-child, .gb-dash td:first-child { text-align: left; }
.gb-dash tbody tr { cursor: pointer; }
.gb-dash tbody tr:hover { background: var(--gb-hover); }
.gb-dash .gb-chip { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 7px;
  border: 1px solid var(--gb-muted); vertical-align: -1px; }
.gb-dash .gb-bad { color: var(--gb-bad); font-weight: 600; }
.gb-dash .gb-bar { display: flex; height: 12px; border-radius: 3px; overflow: hidden; margin: 4px 0;
  background: var(--gb-faint); }
.gb-dash .gb-block { font-size: 12px; }
.gb-dash .gb-title { font-weight: 600; font-size: 12px; margin-top: 10px; }
.gb-view .gb-canvas { transition: opacity .3s; }
.gb-view .gb-canvas.gb-waiting { opacity: .35; }
`;

const BAD_CELLS = /** @type {Record<string, string>} */ ({ rhat: "rhat_bad", ess_bulk: "bulk_bad", ess_tail: "tail_bad" });

/** Make `node` equal to `fresh`, changing only what differs. An element that a person is about to click, or has
 *  unfolded, stays the one it was; so listeners sit on what holds it, and find out by `data-act`.
 *  @param {ChildNode} node @param {ChildNode} fresh */
function morph(node, fresh) {
  if (node.nodeName !== fresh.nodeName) {
    node.replaceWith(fresh);
    return;
  }
  if (!(node instanceof Element) || !(fresh instanceof Element)) {
    if (node.nodeValue !== fresh.nodeValue) node.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  for (const { name } of [...node.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") node.removeAttribute(name);
  }
  const [old, young] = [[...node.childNodes], [...fresh.childNodes]];
  young.forEach((child, i) => (i < old.length ? morph(old[i], child) : node.append(child)));
  for (const child of old.slice(young.length)) child.remove();
}

/** Put `children` into `box` by `morph`. @param {HTMLElement} box @param {HTMLElement[]} children */
function place(box, ...children) {
  const fresh = /** @type {HTMLElement} */ (box.cloneNode(false));
  fresh.append(...children);
  morph(box, fresh);
}

/** @param {Status} status */
function drawHead(status) {
  const head = element("div", "gb-head");
  head.append(element("span", "gb-name", status.model));
  const pill = element("span", "gb-pill" + (status.ended ? "" : " gb-busy"), status.words);
  pill.style.background = status.colour;
  head.append(pill);
  if (!status.ended) {
    const stop = element("button", "gb-stop", status.stopping ? "Stopping…" : "Stop");
    stop.title = "End after this chunk and keep every draw";
    stop.disabled = status.stopping;
    stop.dataset.act = "stop";
    if (status.stop_note) head.append(element("span", "gb-note gb-aside", status.stop_note));
    head.append(stop);
  }
  return head;
}

/** What to try about a warning: a text of the package itself, unfolded in place. @param {Warned} warning */
function drawAdvice(warning) {
  const box = element("details", "gb-advice");
  const body = element("div");
  body.innerHTML = warning.advice ?? "";
  box.append(element("summary", "", "what to try"), body);
  return box;
}

/** @param {Status} status */
function drawProgress(status) {
  const box = element("div");
  box.append(element("div", "gb-progress", status.progress));
  if (status.message) box.append(element("div", "gb-message", status.message));
  status.chains.forEach((words, i) => {
    const line = element("div", "gb-chain");
    const track = element("div", "gb-track");
    const fill = element("div", "gb-fill");
    fill.style.width = `${100 * status.share}%`;
    fill.style.background = status.colour;
    const mark = element("div", "gb-mark");
    mark.style.left = `${100 * status.warmup_share}%`;
    mark.title = "the end of warm-up";
    track.append(fill, mark);
    line.append(element("span", "", `chain ${i}`), track, element("span", "", words));
    box.append(line);
  });
  if (status.more_chains > 0) box.append(element("div", "gb-note", `… and ${status.more_chains} more chains`));
  for (const warning of status.warnings) {
    const row = element("div", "gb-warning");
    row.append(element("div", "", warning.text));
    if (warning.hint) row.append(element("div", "gb-hint", warning.hint));
    if (warning.advice) row.append(drawAdvice(warning));
    box.append(row);
  }
  if (status.stage) box.append(element("div", "gb-stage", status.stage));
  return box;
}

/** The labels after a click on one: off if it was on, else on, the oldest making room. @param {string[]} labels @param {string} label
 * @param {number} slots */
export function toggled(labels, label, slots) {
  if (labels.includes(label)) return labels.filter((l) => l !== label);
  return [...labels, label].slice(-slots);
}

/** The rows of now in the order in which others stood, so that nothing moves under the pointer: what has left
 * the table stays as it was, what is new comes last. @param {Row[]} now @param {Row[]} stood */
export function inPlace(now, stood) {
  const fresh = new Map(now.map((row) => [row.label, row]));
  const old = stood.map((row) => fresh.get(row.label) ?? { ...row, chosen: "" });
  const seen = new Set(stood.map((row) => row.label));
  return [...old, ...now.filter((row) => !seen.has(row.label))];
}

/** @param {Status} status */
function drawTable(status) {
  const scroll = element("div", "gb-scroll");
  const table = element("table");
  const head = element("tr");
  status.heads.forEach((words, i) => head.append(element("th", "", i === 0 ? "worst first" : words)));
  const thead = element("thead");
  thead.append(head);
  const body = element("tbody");
  for (const row of status.rows) {
    const line = element("tr");
    line.title = row.chosen ? "click to remove from the plots" : "click to plot";
    for (const name of status.cells) {
      const cell = element("td", row[BAD_CELLS[name]] ? "gb-bad" : "", name === "label" ? undefined : row[name]);
      if (name === "label") {
        const chip = element("span", "gb-chip");
        if (row.chosen) {
          chip.style.background = row.chosen;
          chip.style.borderColor = row.chosen;
        }
        cell.append(chip, row.label);
      }
      line.append(cell);
    }
    line.dataset.act = "choose";
    line.dataset.label = row.label;
    body.append(line);
  }
  table.append(thead, body);
  scroll.append(table);
  return scroll;
}

/** @param {Status} status */
function drawBlocks(status) {
  const box = element("div");
  if (!status.blocks.length) return box;
  const timed = status.blocks.some((block) => block.share !== null);
  box.append(element("div", "gb-title", timed ? "time by block" : "blocks"));
  if (timed) {
    const bar = element("div", "gb-bar");
    for (const block of status.blocks) {
      const part = element("div");
      part.style.cssText = `width:${100 * (block.share ?? 0)}%;background:${block.colour}`;
      part.title = `${block.label}: ${block.detail}`;
      bar.append(part);
    }
    box.append(bar);
  }
  for (const block of status.blocks) {
    const line = element("div", "gb-block");
    const chip = element("span", "gb-chip");
    chip.style.cssText = `background:${block.colour};border-color:${block.colour}`;
    line.append(chip, element("b", "", block.label), `: ${block.detail}`);
    box.append(line);
  }
  if (status.timing) {
    const measure = element("button", "gb-measure", status.timing === "offered" ? "measure time by block" : "measuring…");
    measure.title = "Compile and time every block by itself; takes some seconds and changes nothing of the run";
    measure.disabled = status.timing !== "offered";
    measure.dataset.act = "time";
    box.append(measure);
  }
  if (status.timing_note) box.append(element("div", "gb-note gb-bad", status.timing_note));
  return box;
}

/** The box to type a parameter's name into; kept between updates, so that typing is not disturbed.
 * @param {(content: object) => void} tell */
function drawTools(tell) {
  const tools = element("div", "gb-tools");
  const list = element("datalist");
  list.id = `gb-${Math.random().toString(36).slice(2)}`;
  const input = element("input");
  input.placeholder = "plot a parameter: mu[0]";
  input.setAttribute("list", list.id);
  const worst = element("button", "", "worst first");
  worst.title = "plot the parameters that are worst off";
  const note = element("span", "gb-note");
  tools.append(input, list, worst, note);
  const state = { labels: /** @type {string[]} */ ([]), slots: 3 };
  input.addEventListener("change", () => {
    const label = input.value.trim();
    if (!label) return;
    input.value = "";
    if (!state.labels.includes(label)) tell({ kind: "choose", labels: toggled(state.labels, label, state.slots) });
  });
  worst.addEventListener("click", () => tell({ kind: "choose", labels: [] }));
  /** @param {Status} status */
  const update = (status) => {
    Object.assign(state, { labels: status.labels, slots: status.slots });
    worst.disabled = status.auto;
    note.textContent = status.note || status.limits;
    note.classList.toggle("gb-bad", Boolean(status.note));
    const known = status.rows.map((row) => row.label);
    if (known.join() !== [...list.options].map((o) => o.value).join()) {
      list.replaceChildren(...known.map((label) => Object.assign(element("option"), { value: label })));
    }
  };
  return { tools, update };
}

export default hostWidget({
  style: DASHBOARD_STYLE,
  async mount({ model, el, body }) {
    const control = await model.widget_manager.get_model(model.get("_control").replace("IPY_MODEL_", ""));
    /** @param {object} content */
    const tell = (content) => control.send(content);
    const top = element("div", "gb-dash");
    const bottom = element("div", "gb-dash");
    const { tools, update: updateTools } = drawTools(tell);
    const table = element("div");
    const blocks = element("div");
    bottom.append(tools, table, blocks);
    body.before(top);
    body.after(bottom);

    /** @param {MouseEvent} event */
    const act = (event) => {
      const target = /** @type {HTMLElement} */ (event.target).closest("[data-act]");
      /** @type {Status} */
      const { labels, slots } = model.get("_status");
      if (target instanceof HTMLButtonElement) {
        if (target.disabled) return;
        target.disabled = true;
        target.textContent = target.dataset.act === "stop" ? "Stopping…" : "measuring…";
        tell({ kind: target.dataset.act });
      } else if (target instanceof HTMLElement && target.dataset.label !== undefined) {
        tell({ kind: "choose", labels: toggled(labels, target.dataset.label, slots) });
      }
    };
    top.addEventListener("click", act);
    bottom.addEventListener("click", act);

    let seen = "";
    let pointed = false;
    let rows = /** @type {Row[]} */ ([]);
    const paint = () => {
      /** @type {Status} */
      const told = model.get("_status");
      rows = pointed ? inPlace(told.rows, rows) : told.rows;
      const status = { ...told, rows };
      const text = JSON.stringify(status);
      if (text === seen) return;
      seen = text;
      place(top, drawHead(status), drawProgress(status));
      place(table, ...(status.rows.length ? [drawTable(status)] : []));
      place(blocks, drawBlocks(status));
      tools.style.display = status.rows.length ? "" : "none";
      updateTools(status);
      body.classList.toggle("gb-waiting", !status.ready);
    };
    /** @param {boolean} over */
    const point = (over) => {
      pointed = over;
      paint();
    };
    table.addEventListener("pointerenter", () => point(true));
    table.addEventListener("pointerleave", () => point(false));
    paint();
    model.on("change:_status", paint);
    return () => model.off("change:_status", paint);
  },
});
