// What a click on a node tells, as HTML: statement, conditional, kernel with its reason, neighbours.

/** @typedef {import("./model.mjs").Facts} Facts */

const LEVELS = /** @type {Record<string, string>} */ ({
  data: "data: computed once",
  model: "model: in the inner loop",
  generated: "generated: no observation sees it, drawn after the fact",
});

const STYLE =
  "<style>.gp{font:13px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif;color:inherit}" +
  ".gp h4{margin:0 0 2px;font-size:15px}.gp .k{opacity:.7;font-size:12px}" +
  ".gp code{font:12px/1.5 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap;" +
  "overflow-wrap:anywhere;background:rgba(127,127,127,.12);border-radius:4px;padding:1px 4px}" +
  ".gp .ask{margin:0 0 8px;padding:6px 8px;border-left:3px solid #c2185b;background:rgba(127,127,127,.12)}" +
  ".gp summary{cursor:pointer}.gp dl{margin:8px 0 0;display:grid;grid-template-columns:minmax(70px,max-content) 1fr;" +
  "gap:3px 10px}.gp dt{opacity:.7;font-size:12px;grid-column:1;max-width:110px}.gp dd{margin:0;grid-column:2;min-width:0}" +
  ".gp .q summary{width:fit-content;border:1px solid;border-radius:50%;min-width:1.4em;text-align:center;list-style:none}" +
  "</style>";

const FIRST = "Click a node for its conditional and its kernel.";

const HINT =
  "Hover over a node to see its Markov blanket (blue edges come from parents, orange ones go to children); " +
  "click for its conditional and its kernel. Then Shift-click a second node: are the two independent? " +
  "Ctrl-click adds a node to what is given. A click on a plate's label closes it, a double click opens what " +
  "stands for several nodes. By keyboard: Tab into the graph, arrows, Enter, Escape, + opens; Tab again to the " +
  "plates, Enter closes and opens them.";

/** @param {string} text */
export function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

const LONG = 320;

/** @param {string} term @param {string|undefined} words @param {boolean} [code] */
function entry(term, words, code) {
  if (!words) return "";
  const whole = code ? `<code>${escaped(words)}</code>` : escaped(words);
  const begin = escaped(words.slice(0, LONG / 2));
  const body = words.length > LONG ? `<details><summary>${begin} …</summary>${whole}</details>` : whole;
  return `<dt>${escaped(term)}</dt><dd>${body}</dd>`;
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

/** The panel of a node; `draws` is HTML about the draws of a run.
 * @param {Facts} facts @param {string} name @param {string} [draws] */
export function panelOf(facts, name, draws = "") {
  const fact = facts[name];
  const { told } = fact;
  const sign = fact.kind === "deterministic" ? "=" : "~";
  const latex = told.latex
    ? `<dd><details><summary class="k">as LaTeX</summary><code>${escaped(told.latex)}</code></details></dd>`
    : "";
  const parts = [
    entry("stands for", told.stands && list(told.stands, 8)),
    draws,
    entry("statement", told.plate ? "" : told.statement && `${name} ${sign} ${told.statement}`, true),
    entry("conditional", told.conditional, true),
    latex,
    entry("form", told.form),
    entry("summed out", told.summed ? `at step ${told.summed}` : ""),
    entry("kernel", told.kernel && `${told.kernel}: ${told.reason}`),
    entry("what blocked a better one", told.blocked),
    entry("kernels", told.updates),
    entry("parents", list(fact.parents)),
    entry("children", list(fact.children)),
    entry("Markov blanket", list(fact.blanket)),
    entry("level", LEVELS[fact.level]),
    entry("written at", told.line ? `line ${told.line}` : ""),
  ];
  const head = `<h4>${escaped(name)}</h4><span class="k">${escaped(sketch(facts, name))}</span>`;
  return `<div class="gp">${head}<dl>${parts.join("")}</dl></div>`;
}

/** What the look of nodes that are summed out means. @param {import("./shapes.mjs").Colours} colours */
export function legendOf(colours) {
  const box = `background:${colours.fill.summed};border:2px dashed ${colours.line.summed}`;
  const swatch = `<span style="display:inline-block;width:26px;height:11px;margin-right:8px;${box}"></span>`;
  const words = "summed out of the target, and drawn again after each step; the numbers above go through the order";
  return `<p class="gp k gp-legend">${swatch}${words}</p>`;
}

/** The whole of the panel's HTML. @param {string} answer @param {string} panel @param {string} [legend] */
export function panelHtml(answer, panel, legend = "") {
  const reply = answer ? `<div class="gp" role="status"><p class="ask">${escaped(answer)}</p></div>` : "";
  return STYLE + reply + (panel || `<div class="gp k">${FIRST}<details class="q"><summary title="help">?</summary>${HINT}</details></div>`) + legend;
}
