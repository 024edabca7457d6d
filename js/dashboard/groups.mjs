// Chains that a person has switched off: their marks in all plots of the page's documents, and in pictures.

/** Show and hide what belongs to groups ("chain 0"). @param {any} doc a Bokeh document @param {Set<string>} hidden */
export function showGroups(doc, hidden) {
  for (const model of doc._all_models.values()) {
    const group = model.glyph && model.tags.find((/** @type {any} */ tag) => /^chain \d+$/.test(String(tag)));
    if (group !== undefined && group !== null && model.visible === hidden.has(group)) model.visible = !hidden.has(group);
  }
}

/** The same in pictures. @param {HTMLElement} box @param {Set<string>} hidden */
export function showDrawnGroups(box, hidden) {
  for (const mark of /** @type {NodeListOf<SVGElement>} */ (box.querySelectorAll("[data-group]"))) {
    if (mark instanceof SVGElement) mark.style.display = hidden.has(mark.dataset.group ?? "") ? "none" : "";
  }
}
