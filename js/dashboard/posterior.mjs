// The posterior: a card for each site, the box for expressions, and the place of what is plotted large.

import { element } from "../host/host.mjs";

/** @import { Card, Posterior, Status } from "./status.mjs" */

/** @param {Card} card @param {string[]} focus */
function drawCard(card, focus) {
  const box = element("div", "gb-card" + (card.wide ? " gb-wide" : ""));
  const chosen = focus.includes(card.label);
  const button = element("button", "gb-picture");
  button.dataset.act = "focus";
  button.dataset.label = card.label;
  button.setAttribute("aria-pressed", String(chosen));
  button.setAttribute("aria-label", card.words);
  button.title = chosen ? "close the large plot" : "plot it large; a second one makes a pair";
  button.innerHTML = card.svg; // drawn by the package itself, names escaped
  box.append(button);
  for (const row of card.rows) {
    const line = element("button", "gb-row");
    line.dataset.act = "focus";
    line.dataset.label = row.label;
    line.style.top = `${100 * row.at}%`;
    line.setAttribute("aria-pressed", String(focus.includes(row.label)));
    line.setAttribute("aria-label", row.name);
    line.title = row.name === row.label ? row.name : `${row.name}: ${row.label}`;
    box.append(line);
  }
  if (card.derived) {
    const drop = element("button", "gb-drop", "×");
    drop.dataset.act = "forget";
    drop.dataset.name = card.derived;
    drop.title = `forget ${card.derived}`;
    drop.setAttribute("aria-label", `forget ${card.derived}`);
    box.append(drop);
  }
  return box;
}

/** @param {Posterior} posterior */
export function drawPosterior(posterior) {
  const grid = element("div", "gb-cards");
  for (const card of posterior.cards ?? []) grid.append(drawCard(card, posterior.focus ?? []));
  const out = [grid];
  if (posterior.more) out.push(element("div", "gb-note", posterior.more));
  if (!posterior.cards) out.push(element("div", "gb-note", "There are no draws yet."));
  if (posterior.legend) out.push(element("div", "gb-note", posterior.legend));
  return out;
}

/** The box for expressions; kept between updates, so that typing is not disturbed. @param {(content: object) => void} tell */
export function drawExpression(tell) {
  const box = element("div", "gb-expression");
  const input = element("input");
  const placeholder = "mu[1] - mu[0], or lift = p[1] - p[0]";
  input.placeholder = placeholder;
  input.setAttribute("aria-label", "an expression over the draws, to be plotted and summarised");
  input.spellcheck = false;
  const add = element("button", "", "add");
  add.title = "evaluate it on every draw, and keep it with the run";
  const note = element("pre", "gb-refused");
  note.setAttribute("role", "alert");
  box.append(input, add, note);
  let waiting = false;
  const ask = () => {
    if (!input.value.trim()) return;
    waiting = true;
    tell({ kind: "derive", text: input.value });
  };
  add.addEventListener("click", ask);
  input.addEventListener("keydown", (event) => {
    event.stopPropagation(); // a notebook's shortcuts are not meant
    if (event.key === "Enter") ask();
  });
  let answered = -1;
  /** @param {Status} status */
  const update = (status) => {
    input.placeholder = status.view === "check" ? "a statistic of the data: max(y), mean(y == 0); or by county" : placeholder;
    if (status.answered === answered) return;
    answered = status.answered;
    note.textContent = refusal(status.expression_note ?? {});
    if (waiting && !note.textContent) input.value = "";
    waiting = false;
  };
  return { box, update };
}

/** Why an expression was refused, with the place below it. @param {Status["expression_note"]} note */
export function refusal(note) {
  if (!note.sentence) return "";
  if (!note.text) return note.sentence;
  return `${note.sentence}\n${note.text}\n${" ".repeat(note.at ?? 0)}${"^".repeat(note.length ?? 1)}`;
}
