// Changes of the page that disturb nobody: what has not changed stays the element that it was.

/** Make `node` equal to `fresh`, changing only what differs. An element that a person is about to click, or has
 *  unfolded, stays the one it was; so listeners sit on what holds it, and find out by `data-act`.
 *  @param {ChildNode} node @param {ChildNode} fresh */
function morph(node, fresh) {
  if (node.nodeName !== fresh.nodeName) {
    node.replaceWith(fresh);
    return;
  }
  if (!(node instanceof Element) || !(fresh instanceof Element)) {
    if (node.nodeValue !== fresh.nodeValue) node.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  for (const { name } of [...node.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") node.removeAttribute(name);
  }
  if (node instanceof HTMLInputElement && fresh instanceof HTMLInputElement) node.checked = fresh.checked;
  const [old, young] = [[...node.childNodes], [...fresh.childNodes]];
  young.forEach((child, i) => (i < old.length ? morph(old[i], child) : node.append(child)));
  for (const child of old.slice(young.length)) child.remove();
}

/** Put `children` into `box` by `morph`. @param {HTMLElement} box @param {HTMLElement[]} children */
export function place(box, ...children) {
  const fresh = /** @type {HTMLElement} */ (box.cloneNode(false));
  fresh.append(...children);
  morph(box, fresh);
}
