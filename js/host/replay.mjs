// The course of a run in a saved page: below the plots a bar with a slider, and a button that moves it, goes through
// the stages of a tab. Each is put into the figures as a live view is told of the run. Runs as a Bokeh CustomJS: when
// the page is there, and when another tab is chosen.

import { applyColumns, applyProps, element } from "./host.mjs";
import { unpacked } from "./packed.mjs";

const PAUSE = 250; // milliseconds between stages

const COURSE_STYLE = `
.gb-course { font: 13px/1.45 system-ui, sans-serif; padding: 0 8px 6px; }
.gb-course[hidden] { display: none; }
.gb-told { min-height: 6.6em; }
.gb-player { position: sticky; bottom: 0; z-index: 3; display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: center;
  padding: 6px 8px; font: 13px/1.45 system-ui, sans-serif; background: Canvas; border-top: 1px solid GrayText; }
.gb-player[hidden] { display: none; }
.gb-player button { font: inherit; min-width: 6em; cursor: pointer; }
.gb-player input { flex: 1 1 12em; margin: 0; }
.gb-player output { flex: 0 0 19em; font-variant-numeric: tabular-nums; }
`;

/**
 * @typedef {(string|number|null)[]} Listed as `listed` in views/host/wire.py makes them
 * @typedef {{tables: Record<string, Record<string, Listed[]>>,
 *   stages: {title: string, html: string, props: Record<string, object>}[]}} Course
 */

/** The columns of all tables at one stage; what is not there is no number. @param {Course} course @param {number} at */
export function columnsAt({ tables }, at) {
  /** @param {Listed} values */
  const column = (values) =>
    values.some((v) => typeof v === "string") ? values : values.map((v) => (v === null ? NaN : v));
  /** @type {Record<string, {stamp: number, columns: Record<string, any>}>} */
  const out = {};
  for (const [name, table] of Object.entries(tables)) {
    out[name] = { stamp: at, columns: Object.fromEntries(Object.entries(table).map(([key, of]) => [key, column(of[at])])) };
  }
  return out;
}

/** Where a play begins that is started at a stage: at the last one, anew. @param {number} at @param {number} last */
export function beginning(at, last) {
  return at < last ? at : 0;
}

/** The models of a part of a document, found by name as in a whole one: other parts may have the same names.
 * @param {any} root */
export function partOf(root) {
  const named = new Map([...root.references()].map((model) => [model.name, model]));
  return { get_model_by_name: (/** @type {string} */ name) => named.get(name) ?? null };
}

/** Build the bar of one tab. @param {Course} course @param {any} tab @returns {(shown: boolean) => void} what shows it */
function player(course, tab) {
  const doc = partOf(tab);
  const last = course.stages.length - 1;
  const told = element("div", "gb-course gb-told");
  const bar = element("div", "gb-player");
  const button = element("button");
  const slider = element("input");
  const words = element("output");
  Object.assign(slider, { type: "range", min: "0", max: String(last), value: String(last) });
  slider.setAttribute("aria-label", "course of the run");
  bar.append(button, slider, words);
  document.body.append(told, bar);
  const seen = new Map();
  const show = () => {
    const at = Number(slider.value);
    const { title, html, props } = course.stages[at];
    words.textContent = title;
    told.innerHTML = html;
    slider.setAttribute("aria-valuetext", title);
    applyColumns(doc, columnsAt(course, at), new Map());
    applyProps(doc, props, seen);
  };
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    button.textContent = "▶ play";
  };
  const step = () => {
    slider.value = String(Number(slider.value) + 1);
    show();
    if (Number(slider.value) >= last) stop();
  };
  button.addEventListener("click", () => {
    if (timer) return stop();
    slider.value = String(beginning(Number(slider.value), last));
    show();
    timer = setInterval(step, PAUSE);
    button.textContent = "❚❚ pause";
  });
  slider.addEventListener("input", () => {
    stop();
    show();
  });
  stop();
  show();
  return (shown) => {
    told.hidden = bar.hidden = !shown;
    if (!shown) stop();
  };
}

/** @param {{tabs: any, store: any}} args */
export default async function replay({ tabs, store }) {
  store.gibbsitePlayers ??= unpacked(store.data.text[0]).then((/** @type {Record<string, Course>} */ courses) => {
    document.head.append(element("style", "", COURSE_STYLE));
    return Object.entries(courses).map(([tab, course]) => [Number(tab), player(course, tabs.tabs[Number(tab)])]);
  });
  for (const [tab, show] of await store.gibbsitePlayers) show(tab === tabs.active);
}
