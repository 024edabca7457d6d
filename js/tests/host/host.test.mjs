import assert from "node:assert/strict";
import { test } from "node:test";
import dashboard from "../../dashboard/dashboard.mjs";
import { statusOf } from "../../dashboard/head.mjs";
import { inPlace, toggled } from "../../dashboard/table.mjs";
import figure from "../../host/figure.mjs";
import { writeCell } from "../../host/cells.mjs";
import { mapSize, onMap, seenPart, wantsMap } from "../../graph/map.mjs";
import { applyColumns, applyProps, decodeColumn, decodeColumns, isDark, laidOutOnce, leavingZoom, paintTheme, sourceOf } from "../../host/host.mjs";

const bytes = (array) => new DataView(array.buffer, array.byteOffset, array.byteLength);

test("columns arrive as lists or as bytes of a kind, wherever these begin in their buffer", () => {
  assert.deepEqual(decodeColumn(["a", null]), ["a", null]);
  const all = new Float64Array([1, 2, 3]);
  assert.deepEqual(decodeColumn({ dtype: "f8", data: bytes(all.subarray(1)) }), new Float64Array([2, 3]));
  const columns = decodeColumns({ x: { dtype: "i4", data: bytes(new Int32Array([-7])) }, y: [1] });
  assert.deepEqual(columns, { x: new Int32Array([-7]), y: [1] });
});

/** A document of models by name. */
function doc(models) {
  return { get_model_by_name: (name) => models[name] ?? null, _all_models: new Map(Object.entries(models)) };
}

test("a source takes new columns once, and what is not there yet is taken up later", () => {
  const models = { points: { data: {} } };
  const seen = new Map();
  const sent = { points: { stamp: 1, columns: { x: [1] } }, later: { stamp: 2, columns: { x: [5] } } };
  applyColumns(doc(models), sent, seen);
  assert.deepEqual(models.points.data, { x: [1] });
  models.points.data = { x: ["kept"] };
  models.later = { data: {} };
  applyColumns(doc(models), sent, seen);
  assert.deepEqual(models.points.data, { x: ["kept"] });
  assert.deepEqual(models.later.data, { x: [5] });
});

test("properties are set when they are new", () => {
  const calls = [];
  const models = { plot: { setv: (props) => calls.push(props) } };
  const seen = new Map();
  for (const width of [1, 1, 2]) applyProps(doc(models), { plot: { width }, gone: { width } }, seen);
  assert.deepEqual(calls, [{ width: 1 }, { width: 2 }]);
});

test("a page is dark where it says so, else where its reader wishes", () => {
  const classes = new Set();
  const body = { dataset: {}, classList: { contains: (name) => classes.has(name) } };
  globalThis.document = { body };
  globalThis.matchMedia = () => ({ matches: true });
  assert.equal(isDark(), true);
  body.dataset.jpThemeLight = "true";
  assert.equal(isDark(), false);
  delete body.dataset.jpThemeLight;
  classes.add("vscode-light");
  assert.equal(isDark(), false);
  classes.clear();
  const on = (/** @type {string[]} */ ...names) => ({ contains: (name) => names.includes(name) });
  globalThis.document.documentElement = { classList: on("light"), getAttribute: () => null };
  assert.equal(isDark(), false); // marimo
  globalThis.document.documentElement = { classList: on(), getAttribute: () => "light" };
  assert.equal(isDark(), false); // Colab
  globalThis.document.documentElement = { classList: on("dark"), getAttribute: () => null };
  globalThis.matchMedia = () => ({ matches: false });
  assert.equal(isDark(), true);
  delete globalThis.document.documentElement;
});

test("a line goes into a new cell below its view, else to the clipboard, else it is said", async () => {
  const cell = (text) => ({ outputs: { toJSON: () => [{ data: { "text/html": text } }] } });
  const put = [];
  const book = { cells: [cell("a"), cell("gibbsite-twin"), cell("b")], sharedModel: { insertCell: (...what) => put.push(what) } };
  const of = (manager) => ({ widget_manager: manager, get: () => "gibbsite-twin" });
  assert.match(await writeCell(of({ context: { model: book } }), "1 + 1"), /new cell/);
  assert.deepEqual([put[0][0], put[0][1].source], [2, "1 + 1"]);
  const copied = [];
  const clipboard = (writeText) => Object.defineProperty(globalThis, "navigator", { value: { clipboard: { writeText } }, configurable: true });
  clipboard(async (text) => copied.push(text));
  assert.match(await writeCell(of({}), "2 + 2"), /copied/);
  assert.deepEqual(copied, ["2 + 2"]);
  // a notebook that lacks the view is another one on this kernel: nothing is put there
  const others = { ...book, cells: [cell("a"), cell("b")] };
  assert.match(await writeCell(of({ context: { model: others } }), "4"), /copied/);
  assert.deepEqual([put.length, copied.at(-1)], [1, "4"]);
  clipboard(async () => { throw new Error("denied"); });
  assert.match(await writeCell(of(undefined), "3"), /select the line/);
});

test("text, axes and grids take the theme's colours, titles that keep theirs do not", () => {
  const model = (type, names, more = {}) => {
    const made = { type, properties: Object.fromEntries(names.map((n) => [n, 1])), set: {}, ...more };
    made.setv = (props) => Object.assign(made.set, props);
    return made;
  };
  const models = {
    axis: model("LinearAxis", ["major_tick_line_color"]),
    grid: model("Grid", ["grid_line_color"], { grid_line_color: "#eee" }),
    title: model("Title", []),
    kept: model("Title", [], { tags: ["keep"] }),
  };
  const toggles = [];
  globalThis.document.body.dataset.jpThemeLight = "false";
  const shown = doc(models);
  paintTheme(shown, { classList: { toggle: (name, on) => toggles.push([name, on]) } });
  assert.deepEqual(toggles, [["gb-dark", true]]);
  assert.equal(shown.gibbsiteDark, true);
  assert.equal(models.axis.set.axis_label_text_color, models.title.set.text_color);
  assert.equal(models.grid.set.grid_line_color, "#3a4048");
  assert.deepEqual(models.kept.set, {});
});

test("a click on a parameter plots it, another takes it off, the oldest makes room", () => {
  assert.deepEqual(toggled(["a", "b"], "a", 3), ["b"]);
  assert.deepEqual(toggled(["a", "b", "c"], "d", 3), ["b", "c", "d"]);
});

test("every widget is a function that makes something to render", () => {
  for (const widget of [dashboard, figure]) assert.equal(typeof widget().render, "function");
});

test("the map is small, keeps the drawing's shape, and is there for large drawings only", () => {
  assert.deepEqual(mapSize([3000, 600]), [300, 60]);
  assert.deepEqual(mapSize([500, 2600]), [25, 130]);
  const view = (n) => ({ nodes: { name: Array(n).fill("v") } });
  assert.deepEqual([wantsMap(view(41), true, false), wantsMap(view(40), true, false)], [true, false]);
  assert.deepEqual([wantsMap(view(99), true, true), wantsMap(view(99), false, false)], [false, false]);
});

test("the box on the map is the part that is seen; a drag and a click scroll there", () => {
  const at = { scrollLeft: 100, scrollTop: 50, clientWidth: 400, clientHeight: 300 };
  assert.deepEqual(seenPart(at, 0.5, [2000, 600]), { left: 200, right: 1000, top: -100, bottom: -600 });
  const calls = [];
  const element = { ...at, scrollTo: (where) => calls.push(where) };
  const scroll = { document: { views_manager: { find_one: () => ({ el: element }) } } };
  const plot = { width: 1000, x_range: { end: 2000 }, y_range: { start: -600 } };
  const args = { plot, scroll, map: { width: 300 }, box: { left: 610, top: -210 } }; // 10: the box's line
  assert.equal(onMap(args, args.box), true);
  assert.deepEqual(calls.pop(), { left: 300, top: 100 });
  Object.assign(args.box, { left: 210, top: -110 });
  onMap(args, args.box);
  assert.equal(calls.length, 0); // it is there already
  assert.equal(onMap(args, { origin: args.map, event_name: "tap", x: 1000, y: -400 }), true);
  assert.deepEqual(calls.pop(), { left: 300, top: 50 });
  assert.equal(onMap(args, { origin: plot, event_name: "tap" }), false);
});

test("rows keep their places under the pointer, with the values of now", () => {
  const row = (label, mean, chosen = "") => ({ label, mean, chosen });
  const stood = [row("a", 1, "red"), row("b", 1), row("c", 1, "blue")];
  const now = [row("c", 2), row("d", 2), row("a", 2, "red")];
  assert.deepEqual(inPlace(now, stood), [row("a", 2, "red"), row("b", 1), row("c", 2), row("d", 2)]);
  assert.deepEqual(inPlace([], [row("c", 1, "blue")]), [row("c", 1)]);
});

test("a range that was zoomed stays, and learns where a reset leads", () => {
  const range = { start: 0, end: 1, reset_start: null, reset_end: null };
  const to = (end) => ({ start: 0, end, reset_start: 0, reset_end: end });
  assert.deepEqual(leavingZoom(range, to(10)), to(10));
  Object.assign(range, to(10));
  assert.deepEqual(leavingZoom(range, to(20)), to(20));
  Object.assign(range, to(20), { start: 5, end: 6 });
  assert.deepEqual(leavingZoom(range, to(30)), { reset_start: 0, reset_end: 30 });
  Object.assign(range, to(30));
  assert.deepEqual(leavingZoom(range, to(40)), to(40));
  assert.deepEqual(leavingZoom({}, { text: "a" }), { text: "a" });
});

test("the library's text is asked for where a page comes after it was put away", async () => {
  const heard = [];
  const library = {
    get: () => "",
    on: (_, call) => heard.push(call),
    off: (_, call) => heard.splice(heard.indexOf(call), 1),
    send: ({ kind }) => {
      assert.equal(kind, "source");
      for (const call of [...heard]) call({ kind: "other" }), call({ kind: "source", source: "text" });
    },
  };
  assert.equal(await sourceOf(library), "text");
  assert.equal(heard.length, 0);
  assert.equal(await sourceOf({ get: () => "there" }), "there");
});

test("views are laid out once after a change of many models, and by themselves again then", () => {
  class View {
    times = 0;
    invalidate_layout() {
      this.times++;
    }
  }
  const roots = [new View(), new View()];
  laidOutOnce(roots, () => {
    for (let k = 0; k < 3; k++) roots[0].invalidate_layout();
    assert.equal(roots[0].times, 0);
  });
  assert.deepEqual(roots.map((r) => r.times), [1, 0]);
  assert.throws(() => laidOutOnce(roots, () => { throw new Error("a model"); }), /a model/);
  roots[1].invalidate_layout();
  assert.deepEqual(roots.map((r) => r.times), [1, 1]);
});

test("a run that goes on has ended where its kernel has, and one that ended is what it was", () => {
  const gone = { words: "kernel ended", colour: "red", progress: "5 draws", message: "its draws are on disk" };
  const told = { words: "sampling", ended: false, chains: [{ name: "chain 0", words: "sampling" }], without_kernel: gone };
  const model = (status) => ({ get: () => status });
  assert.equal(statusOf(model(told), true), told);
  const ended = statusOf(model(told), false);
  assert.deepEqual([ended.words, ended.ended, ended.progress, ended.chains[0].words], ["kernel ended", true, "5 draws", ""]);
  const finished = { ...told, words: "finished", ended: true };
  assert.equal(statusOf(model(finished), false), finished);
});

test("a view that a page has and never draws is asked for, unless it is put away before", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const sent = [];
  const model = { send: (message) => sent.push(message) };
  figure().initialize({ model });
  const stop = figure().initialize({ model });
  stop();
  t.mock.timers.tick(10_000);
  assert.deepEqual(sent, [{ kind: "unseen" }]);
});
