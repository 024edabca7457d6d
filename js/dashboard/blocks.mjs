// Time by block.

import { element } from "../host/host.mjs";

/** @import { Status } from "./status.mjs" */

/** @param {Status} status */
export function drawBlocks(status) {
  const box = element("div");
  if (!status.blocks.length) return box;
  const timed = status.blocks.some((block) => block.share !== null);
  box.append(element("div", "gb-title", timed ? "time by block" : "blocks"));
  if (timed) {
    const bar = element("div", "gb-bar");
    for (const block of status.blocks) {
      const part = element("div");
      part.style.cssText = `width:${100 * (block.share ?? 0)}%;background:${block.colour}`;
      part.title = `${block.label}: ${block.detail}`;
      bar.append(part);
    }
    box.append(bar);
  }
  for (const block of status.blocks) {
    const line = element("div", "gb-block");
    const chip = element("span", "gb-chip");
    chip.style.cssText = `background:${block.colour};border-color:${block.colour}`;
    line.append(chip, element("b", "", block.label), `: ${block.detail}`);
    box.append(line);
    for (const strip of block.strips) {
      const row = element("div", "gb-centring");
      row.title = strip.help;
      const picture = element("span");
      picture.innerHTML = strip.svg; // made by the package, names escaped
      row.append(element("span", "", strip.words), picture, element("span", "gb-note", strip.ends));
      box.append(row);
    }
  }
  if (status.timing) {
    const measure = element("button", "gb-measure", status.timing === "offered" ? "measure time by block" : "measuring…");
    measure.title = "Compile and time every block by itself; takes some seconds and changes nothing of the run";
    measure.disabled = status.timing !== "offered";
    measure.dataset.act = "time";
    measure.dataset.busy = "measuring…";
    box.append(measure);
  }
  if (status.timing_note) box.append(element("div", "gb-note gb-bad", status.timing_note));
  return box;
}
