// The head with Stop, and how far the chains are.

import { element } from "../host/host.mjs";
import { drawWarning } from "./warnings.mjs";

/** @import { Status } from "./status.mjs" */

/** @param {Status} status */
export function drawHead(status) {
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

/** @param {Status} status */
export function drawProgress(status) {
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
  for (const warning of status.warnings) box.append(drawWarning(warning));
  if (status.stage) box.append(element("div", "gb-stage", status.stage));
  return box;
}
