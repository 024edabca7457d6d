// The dashboard around the plots. All words and numbers come from Python in `_status`; here they are only placed.

import { element, hostWidget } from "../host/host.mjs";
import { writeCell } from "../host/cells.mjs";
import { drawBlocks } from "./blocks.mjs";
import { CURES_STYLE, drawCures } from "./cures.mjs";
import { showGroups } from "./groups.mjs";
import { place } from "./morph.mjs";
import { drawHead, drawProgress } from "./progress.mjs";
import { DASHBOARD_STYLE } from "./style.mjs";
import { drawTable, drawTools, inPlace, toggled } from "./table.mjs";

/** @import { Row, Status } from "./status.mjs" */

export default hostWidget({
  style: DASHBOARD_STYLE + CURES_STYLE,
  async mount({ model, body, doc }) {
    const control = await model.widget_manager.get_model(model.get("_control").replace("IPY_MODEL_", ""));
    /** @param {object} content */
    const tell = (content) => control.send(content);
    const top = element("div", "gb-dash");
    const bottom = element("div", "gb-dash");
    const { tools, update: updateTools } = drawTools(tell);
    const table = element("div");
    const blocks = element("div");
    bottom.append(tools, table, blocks);
    const cures = element("div", "gb-dash");
    let said = "";
    const paintCures = () => place(cures, drawCures(model.get("_cures"), said));
    body.before(top, cures);
    body.after(bottom);

    const hidden = /** @type {Set<string>} */ (new Set());
    /** What the page does by itself; everything else is told to Python, with all that the element says of itself.
     * @type {Record<string, (data: DOMStringMap) => void>} */
    const own = {
      choose: ({ label = "" }) => {
        /** @type {Status} */
        const { labels, slots } = model.get("_status");
        tell({ kind: "choose", labels: toggled(labels, label, slots) });
      },
      group: ({ group = "" }) => {
        if (!hidden.delete(group)) hidden.add(group);
        showGroups(doc, hidden);
      },
      write: ({ code = "" }) => {
        writeCell(model, code).then((words) => {
          said = words;
          paintCures();
        });
      },
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
    top.addEventListener("click", act);
    cures.addEventListener("click", act);
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
      place(top, drawHead(status), drawProgress(status, hidden));
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
    paintCures();
    model.on("change:_status", paint);
    model.on("change:_cures", paintCures);
    return () => {
      model.off("change:_status", paint);
      model.off("change:_cures", paintCures);
    };
  },
});
