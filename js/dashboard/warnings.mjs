// Warnings, and what to do about them.

import { element } from "../host/host.mjs";

/** @import { Warned } from "./status.mjs" */

/** What to try about a warning: a text of the package itself, unfolded in place. @param {Warned} warning */
function drawAdvice(warning) {
  const box = element("details", "gb-advice");
  const body = element("div");
  body.innerHTML = warning.advice ?? "";
  box.append(element("summary", "", "what to try"), body);
  return box;
}

/** A warning, and what to do about it. @param {Warned} warning */
export function drawWarning(warning) {
  const row = element("div", "gb-warning");
  row.append(element("div", "", warning.text));
  if (warning.hint) row.append(element("div", "gb-hint", warning.hint));
  if (warning.advice) row.append(drawAdvice(warning));
  return row;
}
