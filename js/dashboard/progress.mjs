// How far the chains are, and what there is to warn of.

import { element } from "../host/host.mjs";
import { drawWarning } from "./warnings.mjs";

/** @import { Status } from "./status.mjs" */

/** @param {Status} status @param {Set<string>} hidden chains that are not drawn */
export function drawProgress(status, hidden) {
  const box = element("div");
  box.append(element("div", "gb-progress", status.progress));
  if (status.verdict) {
    box.append(element("div", "gb-verdict" + (status.converged ? "" : " gb-not"), status.verdict));
  }
  if (status.message) box.append(element("div", "gb-message", status.message));
  for (const chain of status.chains) {
    const line = element("div", "gb-chain");
    const track = element("div", "gb-track");
    const fill = element("div", "gb-fill");
    fill.style.width = `${100 * status.share}%`;
    fill.style.background = status.colour;
    const mark = element("div", "gb-mark");
    mark.style.left = `${100 * status.warmup_share}%`;
    mark.title = "the end of warm-up";
    track.append(fill, mark);
    const name = element("label", "gb-choice");
    name.title = `show ${chain.name} in the plots`;
    const shown = element("input");
    shown.type = "checkbox";
    shown.checked = !hidden.has(chain.name);
    shown.dataset.act = "group";
    shown.dataset.group = chain.name;
    const swatch = element("span", "gb-swatch");
    swatch.style.background = chain.colour;
    name.append(shown, swatch, chain.name);
    line.append(name, track, element("span", "", chain.words));
    box.append(line);
  }
  if (status.more_chains > 0) box.append(element("div", "gb-note", `… and ${status.more_chains} more chains`));
  for (const warning of status.warnings) box.append(drawWarning(warning));
  if (status.stage) box.append(element("div", "gb-stage", status.stage));
  return box;
}
