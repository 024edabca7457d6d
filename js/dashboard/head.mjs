// The head with state and Stop, which stays in sight while the run goes on; and the choice of views.

import { element } from "../host/host.mjs";

/** @import { Status } from "./status.mjs" */

/** What Python told last; of a run that went on when its kernel ended, as the page calls that.
 * @param {{get: (name: string) => any}} model @param {boolean} live @returns {Status} */
export function statusOf(model, live) {
  /** @type {Status} */
  const told = model.get("_status");
  if (told.ended || live) return told;
  const chains = told.chains.map((chain) => ({ ...chain, words: "" }));
  return { ...told, ...told.without_kernel, chains, ended: true, stopping: false };
}

/** @param {Status} status */
function drawState(status) {
  const pill = element("span", "gb-pill" + (status.ended ? "" : " gb-busy"), status.words);
  pill.style.background = status.colour;
  pill.setAttribute("role", "status"); // read out when it changes
  pill.setAttribute("aria-live", "polite");
  return pill;
}

/** @param {Status} status */
function drawStop(status) {
  const stop = element("button", "gb-stop", status.stopping ? "Stopping…" : "Stop");
  stop.title = "End after this chunk and keep every draw";
  stop.disabled = status.stopping;
  stop.dataset.act = "stop";
  stop.dataset.busy = "Stopping…";
  return stop;
}

/** @param {Status} status @param {boolean} noticed whether the reader is told of the end */
export function drawHead(status, noticed) {
  const head = element("div", "gb-head");
  head.append(element("span", "gb-name", status.model), drawState(status));
  if (!status.ended) {
    if (status.stop_note) head.append(element("span", "gb-note gb-aside", status.stop_note));
    const notice = element("label", "gb-choice gb-note gb-aside");
    const box = element("input");
    box.type = "checkbox";
    box.checked = noticed;
    box.dataset.act = "notice";
    notice.title = "A notification at the end, if the page is hidden then; the browser asks once";
    notice.append(box, "tell me at the end");
    head.append(notice, drawStop(status));
  }
  return head;
}

/** Tabs for the three views, and the picture of what is shown. @param {string} view @param {boolean} ready */
export function drawViews(view, ready) {
  const row = element("div", "gb-tabs");
  row.setAttribute("role", "tablist");
  for (const name of ["posterior", "check", "convergence"]) {
    const tab = element("button", "gb-tab", name);
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-selected", String(view === name));
    tab.dataset.act = "view";
    tab.dataset.view = name;
    row.append(tab);
  }
  const side = element("span", "gb-aside gb-note", ready ? "save this view:" : "");
  row.append(side);
  for (const format of ready ? ["svg", "png"] : []) {
    const save = element("button", "gb-small", format.toUpperCase());
    save.title = `save the view as ${format.toUpperCase()}`;
    save.dataset.act = "save";
    save.dataset.format = format;
    row.append(save);
  }
  return row;
}

/** State and Stop once more, at the corner of the notebook, while the run goes on and its head is out of sight.
 * It hangs on the page itself: outputs scroll by themselves in some front ends, so that a sticky head would not stick,
 * and a long notebook takes cells that are far away out of the page.
 * @param {HTMLElement} el @param {HTMLElement} head @param {string} style */
export function miniHead(el, head, style) {
  const frame = element("div", "gb-view");
  const box = element("div", "gb-dash gb-mini");
  box.hidden = true;
  frame.append(element("style", "", style), box);
  document.body.append(frame);
  let around = /** @type {Element | null} */ (null);
  let going = false;
  let seen = true;
  let latest = /** @type {Status | undefined} */ (undefined);
  const show = () => {
    box.hidden = seen || !going;
    if (box.hidden || !latest) return box.replaceChildren();
    const name = element("span", "gb-name", `${latest.model} ${Math.round(100 * latest.share)} %`);
    const state = element("span", "gb-state", latest.words);
    state.style.background = latest.colour;
    const stop = drawStop(latest);
    stop.className = "gb-halt";
    box.replaceChildren(name, state, stop);
    const place = around?.getBoundingClientRect();
    box.hidden = !place?.width; // another tab is shown
    box.style.top = `${Math.max(8, (place?.top ?? 0) + 8)}px`;
    box.style.right = `${Math.max(24, innerWidth - (place?.right ?? innerWidth) + 24)}px`;
  };
  const watch = new IntersectionObserver((entries) => {
    seen = entries[entries.length - 1].isIntersecting;
    show();
  });
  watch.observe(head);
  /** @param {Status} status */
  const update = (status) => {
    if (el.isConnected) around = el.closest(".jp-WindowedPanel-outer, .jp-Notebook, main") ?? document.documentElement;
    going = !status.ended;
    latest = status;
    show();
  };
  // It hangs outside of what the host colours, and a run that ended shows nothing that could colour it later.
  const paint = () => void frame.classList.toggle("gb-dark", el.classList.contains("gb-dark"));
  paint();
  const remove = () => {
    watch.disconnect();
    frame.remove();
  };
  return { box, update, paint, remove };
}
