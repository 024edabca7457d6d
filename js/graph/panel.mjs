// What a click on a node tells, as HTML: statement, conditional, kernel with its reason, neighbours.

/** @typedef {import("./model.mjs").Facts} Facts */

const LEVELS = /** @type {Record<string, [string, string]>} */ ({
  data: ["computed once", "it depends on data alone"],
  model: ["in every step", "observations and latent values depend on it"],
  generated: ["after the fact", "no observation depends on it: it is drawn from the finished draws"],
});

const STYLE =
  "<style>.gp{font:13px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif;color:inherit}" +
  ".gp h4{margin:0 0 2px;font-size:15px}.gp .k{opacity:.7;font-size:12px}" +
  ".gp code{font:12px/1.5 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap;" +
  "overflow-wrap:anywhere;background:rgba(127,127,127,.12);border-radius:4px;padding:1px 4px}" +
  ".gp .ask{margin:0 0 8px;padding:6px 8px;border-left:3px solid #c2185b;background:rgba(127,127,127,.12)}" +
  ".gp summary{cursor:pointer}.gp dl{margin:8px 0 0;display:grid;gap:5px 18px;" +
  "grid-template-columns:repeat(auto-fit,minmax(min(210px,100%),1fr))}.gp .w{grid-column:1/-1}" +
  ".gp dt{opacity:.7;font-size:12px}.gp dd{margin:0;min-width:0;overflow-wrap:anywhere}" +
  ".gp .m{font:16px/1.7 'STIX Two Math','Cambria Math','Latin Modern Math',STIXGeneral,'Times New Roman',serif}" +
  ".gp sub,.gp sup{font-size:.72em;line-height:0}.gp sub sub{font-size:.9em}" +
  ".gp .q{float:left;margin-right:8px}.gp .q[open]{float:none}.gp .q summary{width:fit-content;border:1px solid;border-radius:50%;min-width:1.4em;text-align:center;list-style:none}" +
  "</style>";

const FIRST = "Click a node for its conditional and its kernel.";

const HINT =
  "Hover over a node to see its Markov blanket (blue edges come from parents, orange ones go to children); " +
  "click for its conditional and its kernel. Then Shift-click a second node: are the two independent? " +
  "Ctrl-click adds a node to what is given. A click on a plate's label closes it, a double click opens what " +
  "stands for several nodes. By keyboard: Tab into the graph, arrows, Enter, Escape, + opens; Tab again to the " +
  "plates, Enter closes and opens them. Above the graph, kind colours nodes by what they are (round: drawn from a " +
  "continuous distribution, hexagon: from a discrete one, rectangle: computed or given; orange: observed), level " +
  "by when they are computed. Below it, of a node that was clicked: element, condition, do and undo change the " +
  "model that is shown, and use kernel its schedule; each says the line of Python that does the same.";

/** @param {string} text */
export function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

const LONG = 320;

/** A term and what is to be told of it: wide where that is long. @param {string} term @param {string} html
 * @param {{wide?: boolean, title?: string}} [how] */
function pair(term, html, { wide = false, title = "" } = {}) {
  if (!html) return "";
  const tip = title && ` title="${escaped(title)}"`;
  return `<div${wide ? ' class="w"' : ""}${tip}><dt>${escaped(term)}</dt><dd>${html}</dd></div>`;
}

/** Words, folded where they are very long. @param {string|undefined} words @param {boolean} [code] */
function folded(words, code) {
  if (!words) return "";
  const whole = code ? `<code>${escaped(words)}</code>` : escaped(words);
  if (words.length <= LONG) return whole;
  return `<details><summary>${escaped(words.slice(0, LONG / 2))} …</summary>${whole}</details>`;
}

/** Names in a line, the first of them if they are many. @param {string[]} names */
function list(names, most = 24) {
  const more = names.length - most;
  return names.slice(0, most).join(", ") + (more > 0 ? `, … ${more} more` : "");
}

/** What a node is, in a few words: its label for those who cannot see it.
 * @param {Facts} facts @param {string} name */
export function sketch(facts, name) {
  const { kind, told } = facts[name];
  const words = [kind];
  if (kind === "latent" || kind === "observed") words.push(told.discrete ? "discrete" : "continuous");
  if (told.shape?.length) words.push(told.shape.join(" × "));
  if (told.plates?.length) words.push(`in plate ${told.plates.join(", ")}`);
  return words.join(" · ");
}

/** The conditional as it is typeset, and behind it as text and as LaTeX, to be copied.
 * @param {import("./model.mjs").Told} told */
function formula(told) {
  const { conditional, typeset, latex } = told;
  if (!conditional) return "";
  const codes = [conditional, ...(latex ? [latex] : [])].map((text) => `<code>${escaped(text)}</code>`);
  const plain = `<details><summary class="k">as text and LaTeX</summary>${codes.join("<br>")}</details>`;
  const shown = typeset ? `<span class="m">${typeset}</span>` : folded(conditional, true); // escaped where it is made
  if (conditional.length <= LONG) return shown + plain;
  return `<details><summary>${escaped(conditional.slice(0, LONG / 2))} …</summary>${shown}</details>${plain}`;
}

/** The panel of a node; `draws` is HTML about the draws of a run.
 * @param {Facts} facts @param {string} name @param {string} [draws] */
export function panelOf(facts, name, draws = "") {
  const fact = facts[name];
  const { told } = fact;
  const sign = /deterministic|data/.test(fact.kind) ? "=" : "~";
  const statement = told.plate ? "" : told.statement && `${name} ${sign} ${told.statement}`;
  const [when = "", why = ""] = LEVELS[fact.level] ?? [];
  const parts = [
    pair("stands for", escaped(list(told.stands ?? [], 8)), { wide: true }),
    draws,
    pair("as written", folded(statement, true), { wide: true }),
    pair(fact.kind === "data" ? "holds" : "elements", folded(told.elements), { wide: true }),
    pair("conditional: how it is distributed given all the rest", formula(told), { wide: true }),
    pair("form", folded(told.form), { wide: true }),
    pair("summed out", told.summed ? `at step ${told.summed}` : ""),
    pair("kernel that updates it", told.kernel ? `<b>${escaped(told.kernel)}</b>: ${folded(told.reason)}` : "", { wide: true }),
    pair("why no better one", folded(told.blocked), { wide: true }),
    pair("kernels", escaped(told.updates ?? ""), { wide: true }),
    pair("depends on", escaped(list(fact.parents)), { title: "its parents" }),
    pair("read by", escaped(list(fact.children)), { title: "its children" }),
    pair("Markov blanket", escaped(list(fact.blanket)), { title: "given these, nothing else tells of it" }),
    pair("computed", escaped(when), { title: why }),
    pair("written at", told.line ? `line ${told.line}` : ""),
  ];
  const head = `<h4>${escaped(name)}</h4><span class="k">${escaped(sketch(facts, name))}</span>`;
  return `<div class="gp">${head}<dl>${parts.join("")}</dl></div>`;
}

/** A patch of colour before its words. @param {string} box its style */
const swatch = (box) => `<span style="display:inline-block;width:26px;height:11px;margin-right:8px;${box}"></span>`;

/** What the look of nodes that are summed out means. @param {import("./shapes.mjs").Colours} colours */
export function legendOf(colours) {
  const box = `background:${colours.fill.summed};border:2px dashed ${colours.line.summed}`;
  const words = "summed out of the target, and drawn again after each step; the numbers above go through the order";
  return `<p class="gp k gp-legend">${swatch(box)}${words}</p>`;
}

/** What the colours by level mean. @param {import("./shapes.mjs").Colours} colours */
export function levelsLegend(colours) {
  const rows = Object.entries(LEVELS).map(([level, [when, why]]) => {
    const box = `background:${colours.level[level]};border:1px solid rgba(127,127,127,.6)`;
    return `${swatch(box)}${when}: ${why}`;
  });
  return `<p class="gp k gp-legend" style="clear:both">${rows.join("<br>")}</p>`;
}

/** The whole of the panel's HTML. @param {string} answer @param {string} panel @param {string} [legend] */
export function panelHtml(answer, panel, legend = "") {
  const reply = answer ? `<div class="gp" role="status"><p class="ask">${escaped(answer)}</p></div>` : "";
  const help = `<details class="q"><summary title="help">?</summary>${HINT}</details>`;
  return STYLE + reply + (panel || `<div class="gp k">${help}${FIRST}</div>`) + legend;
}
