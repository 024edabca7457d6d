// Warnings, and what to do about them.

import { element } from "../host/host.mjs";

/** @import { Warned } from "./status.mjs" */

/** A warning in a line, and behind it what to try: in a word, and at length as a text of the package tells it.
 * @param {Warned} warning */
export function drawWarning(warning) {
  const row = element("div", "gb-warning");
  row.append(element("span", "", warning.text));
  const hint = warning.hint ? element("div", "gb-hint", warning.hint) : "";
  if (!warning.advice) {
    row.append(hint);
    return row;
  }
  const box = element("details", "gb-advice");
  const body = element("div");
  body.innerHTML = warning.advice;
  box.append(element("summary", "", "what to try"), hint, body);
  row.append(box);
  return row;
}
