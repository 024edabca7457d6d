// The dashboard around the plots. All words and numbers come from Python in `_status`; here they are only placed.

import { element, hostWidget } from "../host/host.mjs";
import { writeCell } from "../host/cells.mjs";
import { drawBlocks } from "./blocks.mjs";
import { CURES_STYLE, drawCures } from "./cures.mjs";
import { showDrawnGroups, showGroups } from "./groups.mjs";
import { drawHead, drawViews, miniHead, statusOf } from "./head.mjs";
import { place } from "./morph.mjs";
import { download, entitle, notify, wantsNotice, wishNotice } from "./page.mjs";
import { drawExpression, drawPosterior } from "./posterior.mjs";
import { drawProgress } from "./progress.mjs";
import { DASHBOARD_STYLE } from "./style.mjs";
import { drawTable, drawTools, inPlace, toggled } from "./table.mjs";

/** @import { Row, Status } from "./status.mjs" */

export default hostWidget({
  style: DASHBOARD_STYLE + CURES_STYLE,
  async mount({ model, el, body, doc, draw }) {
    const control = await model.widget_manager.get_model(model.get("_control").replace("IPY_MODEL_", ""));
    /** @param {object} content */
    const tell = (content) => control.send(content);
    const top = element("div", "gb-dash");
    const bottom = element("div", "gb-dash");
    const { tools, update: updateTools } = drawTools((label) => own.choose({ label }), tell);
    const table = element("div");
    const blocks = element("div");
    bottom.append(tools, table, blocks);
    const cures = element("div", "gb-dash");
    let said = "";
    const paintCures = () => place(cures, drawCures(model.get("_cures"), said));
    const head = element("div", "gb-dash gb-top");
    const stage = element("div", "gb-dash gb-views");
    const bar = element("div", "gb-bar-of-views");
    const cards = element("div");
    const large = element("div", "gb-large");
    const { box: expression, update: updateExpression } = drawExpression(tell);
    const panel = element("div", "gb-panel");
    panel.append(large, expression, cards);
    body.before(head, top, cures, stage);
    stage.append(bar, panel, body);
    stage.after(bottom);
    const mini = miniHead(el, head, DASHBOARD_STYLE);
    doc.gibbsiteTheme = mini.paint;

    const hidden = /** @type {Set<string>} */ (new Set());
    /** What the page does by itself; everything else is told to Python, with all that the element says of itself.
     * @type {Record<string, (data: DOMStringMap) => void>} */
    const own = {
      choose: ({ label = "" }) => {
        /** @type {Status} */
        const { labels, slots, view } = model.get("_status");
        if ((asked || view) !== "convergence") tell({ kind: "focus", label });
        else tell({ kind: "choose", labels: toggled(labels, label, slots) });
      },
      group: ({ group = "" }) => {
        if (!hidden.delete(group)) hidden.add(group);
        showAll();
      },
      write: ({ code = "" }) => {
        writeCell(model, code, el).then((words) => {
          said = words;
          paintCures();
        });
      },
      view: ({ view = "" }) => {
        asked = view;
        tell({ kind: "view", view });
        paint();
      },
      save: ({ format = "svg" }) => {
        formats.push(format);
        tell({ kind: "save" });
      },
      notice: () => {
        wishNotice(!wantsNotice()).then(() => {
          seen = "";
          paint();
        });
      },
    };
    const formats = /** @type {string[]} */ ([]);
    let asked = "";
    let shownLarge = { key: "", doc: /** @type {any} */ (null), remove: () => {} };
    const showAll = () => {
      showGroups(doc, hidden);
      if (shownLarge.doc) showGroups(shownLarge.doc, hidden);
      showDrawnGroups(cards, hidden);
    };
    const paintPosterior = () => {
      place(cards, ...drawPosterior(model.get("_posterior")));
      showDrawnGroups(cards, hidden);
      paint(); // the table tells what is plotted
    };
    /** One at a time: a layout is drawn before the next is begun. */
    let drawing = Promise.resolve();
    const paintLarge = () => {
      drawing = drawing.then(async () => {
        const { key = "", item = "" } = model.get("_focus");
        if (key === shownLarge.key) return;
        shownLarge.remove();
        shownLarge = { key, doc: null, remove: () => {} };
        large.replaceChildren();
        if (!item) return;
        const { focus = [] } = model.get("_posterior");
        large.style.maxWidth = focus.length > 1 ? "" : "700px";
        const { doc: drawn, remove } = await draw(item, large);
        shownLarge = { key, doc: drawn, remove };
        showGroups(drawn, hidden);
      });
    };
    const paintFile = () => {
      const file = model.get("_file");
      const format = file.svg ? formats.shift() : undefined;
      if (format) download(file, format);
    };
    /** @param {MouseEvent} event */
    const act = (event) => {
      const target = /** @type {HTMLElement} */ (event.target).closest("[data-act]");
      if (!(target instanceof HTMLElement)) return;
      const { act: kind = "", ...data } = target.dataset;
      if (own[kind]) return own[kind](data);
      if (target instanceof HTMLButtonElement) {
        if (target.disabled) return;
        target.disabled = true;
        target.textContent = target.dataset.busy ?? target.textContent;
      }
      tell({ kind, ...data });
    };
    for (const part of [head, top, cures, stage, bottom, mini.box]) part.addEventListener("click", act);

    let seen = "";
    let going = false;
    let pointed = false;
    let rows = /** @type {Row[]} */ ([]);
    const paint = () => {
      const told = statusOf(model, control.comm_live !== false);
      rows = pointed ? inPlace(told.rows, rows) : told.rows;
      const view = asked || told.view;
      if (view !== "convergence") {
        const { focus = [] } = model.get("_posterior");
        rows = rows.map((row) => ({ ...row, chosen: focus.includes(row.label) ? "●" : "" }));
      }
      const status = { ...told, rows };
      const text = JSON.stringify([status, asked]);
      if (text === seen) return;
      seen = text;
      if (asked === told.view) asked = "";
      place(head, drawHead(status, wantsNotice()));
      mini.update(status);
      place(top, drawProgress(status, hidden));
      place(bar, drawViews(view, status.ready && !status.stage));
      panel.hidden = view === "convergence";
      body.hidden = view !== "convergence";
      updateExpression(status);
      entitle(status.ended ? "" : `${Math.round(100 * status.share)} % ${status.model}`);
      if (going && status.ended) notify(`${status.model}: ${status.words}`);
      going = !status.ended;
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
    const heard = /** @type {[string, () => void][]} */ ([
      ["change:_status", paint],
      ["change:_posterior", paintPosterior],
      ["change:_focus", paintLarge],
      ["change:_file", paintFile],
      ["change:_cures", paintCures],
    ]);
    paintPosterior();
    paintLarge();
    paintCures();
    for (const [event, call] of heard) model.on(event, call);
    control.on("comm_live_update", paint); // the kernel ended, or another one began
    return () => {
      for (const [event, call] of heard) model.off(event, call);
      control.off("comm_live_update", paint);
      shownLarge.remove();
      mini.remove();
      entitle("");
    };
  },
});
