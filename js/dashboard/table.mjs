// The table of parameters, which is also their chooser.

import { element } from "../host/host.mjs";

/** @import { Row, Status } from "./status.mjs" */

const BAD_CELLS = /** @type {Record<string, string>} */ ({ rhat: "rhat_bad", ess_bulk: "bulk_bad", ess_tail: "tail_bad" });

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
export function drawTable(status) {
  const scroll = element("div", "gb-scroll");
  const table = element("table");
  const head = element("tr");
  status.heads.forEach((words, i) => head.append(element("th", "", i === 0 ? "worst first" : words)));
  const thead = element("thead");
  thead.append(head);
  const body = element("tbody");
  for (const row of status.rows) {
    const line = element("tr");
    for (const name of status.cells) {
      const cell = element("td", row[BAD_CELLS[name]] ? "gb-bad" : "", name === "label" ? undefined : row[name]);
      if (name === "label") {
        const label = element("label", "gb-choice");
        const box = element("input");
        box.type = "checkbox";
        box.checked = Boolean(row.chosen);
        box.dataset.act = "choose";
        box.dataset.label = row.label;
        label.title = row.chosen ? "remove from the plots" : "plot";
        label.append(box, element("span", "gb-stroke", row.chosen), row.shown);
        cell.append(label);
      }
      line.append(cell);
    }
    line.dataset.label = row.label;
    body.append(line);
  }
  table.append(thead, body);
  scroll.append(table);
  return scroll;
}

/** The box to type a parameter's name into; kept between updates, so that typing is not disturbed.
 * @param {(label: string) => void} plot @param {(content: object) => void} tell */
export function drawTools(plot, tell) {
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
    if (!state.labels.includes(label)) plot(label);
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
