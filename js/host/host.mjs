// Hosts Bokeh documents in a notebook widget, offline. BokehJS comes from the kernel (the installed `bokeh`
// package) through one shared library widget, and is loaded once per page and version.
//
// A widget's own file ends with
//     export default hostWidget({ mount(ctx) { …; return cleanup } })
//
// What the page shows is a function of the widget's traits: `_item` (the document, as packed text because
// Bokeh's JSON is sensitive to the order of keys), `_columns` (data sources by name) and `_props` (model
// properties by name). The traits survive a page reload and a saved notebook; messages would not.

import { writeCell } from "./cells.mjs";
import { unpacked } from "./packed.mjs";

/**
 * @typedef {{get: (name: string) => any, on: (event: string, call: () => void) => void,
 *   off: (event: string, call: () => void) => void, send: (content: object) => void, widget_manager: any}} Model
 *   a widget's model, as anywidget gives it
 * @typedef {{Bokeh: any, doc: any, roots: any[], model: Model, el: HTMLElement, body: HTMLElement,
 *   send: (kind: string, detail?: object) => void, repaint: () => void,
 *   draw: (packed: string, target: HTMLElement) => Promise<{doc: any, roots: any[], remove: () => void}>}} Context
 * @typedef {{style?: string, mount?: (context: Context) => any}} Hooks `mount` may return what cleans up
 * @typedef {any[] | {dtype: keyof typeof ARRAYS, data: DataView}} Column
 * @typedef {Float32Array | Float64Array | Int32Array | Uint8Array} Numbers
 */

const page = /** @type {any} */ (globalThis);
/** @type {Map<string, Promise<any>>} */
const loading = (page.__gibbsiteBokeh ??= new Map());
/** Documents of all finished views of this page, in the order in which they were drawn. @type {Set<any>} */
const drawn = (page.__gibbsiteDocuments ??= new Set());

/** The text of BokehJS, which the library widget holds while the cell runs that first shows a view, and gives
 * to whoever asks later: so no saved notebook carries it. @param {any} library @returns {Promise<string>} */
export function sourceOf(library) {
  const source = library.get("source");
  if (source) return Promise.resolve(source);
  return new Promise((resolve) => {
    /** @param {any} content */
    const hear = (content) => {
      if (content?.kind !== "source") return;
      library.off("msg:custom", hear);
      resolve(content.source);
    };
    library.on("msg:custom", hear);
    library.send({ kind: "source" });
  });
}

/** @param {any} library @returns {Promise<any>} */
function loadBokeh(library) {
  const version = library.get("version");
  const present = page.Bokeh?.[version];
  if (present) return Promise.resolve(present);
  if (!loading.has(version)) {
    const promise = sourceOf(library).then((source) => new Promise((resolve, reject) => {
      const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
      const script = document.createElement("script");
      script.src = url;
      script.onload = () => {
        URL.revokeObjectURL(url);
        const bokeh = page.Bokeh?.[version];
        bokeh ? resolve(bokeh) : reject(new Error(`BokehJS ${version} did not register itself`));
      };
      script.onerror = () => reject(new Error("BokehJS could not be loaded"));
      document.head.appendChild(script);
    }));
    // A failed load may be tried again by the next view.
    promise.catch(() => loading.delete(version));
    loading.set(version, promise);
  }
  return /** @type {Promise<any>} */ (loading.get(version));
}

/** @param {Model} model */
async function bokehOf(model) {
  const reference = model.get("_library");
  const library = await model.widget_manager.get_model(reference.replace("IPY_MODEL_", ""));
  return loadBokeh(library);
}

// ---------------------------------------------------------------- columns

const ARRAYS = { f4: Float32Array, f8: Float64Array, i4: Int32Array, u1: Uint8Array };

/** One column as sent by `wire.py`: a plain list, or {dtype, data: DataView}. @param {Column} column
 * @returns {any[]|Numbers} */
export function decodeColumn(column) {
  if (Array.isArray(column)) return column;
  const type = ARRAYS[column.dtype];
  const view = column.data;
  const bytes = /** @type {ArrayBuffer} */ (view.buffer).slice(view.byteOffset, view.byteOffset + view.byteLength);
  return new type(bytes);
}

/** @param {Record<string, Column>} columns */
export function decodeColumns(columns) {
  return Object.fromEntries(Object.entries(columns).map(([name, c]) => [name, decodeColumn(c)]));
}

/** Give data sources their columns, where their stamp is new. @param {any} doc
 * @param {Record<string, {stamp: number, columns: Record<string, Column>}>} all @param {Map<string, number>} seen */
export function applyColumns(doc, all, seen) {
  for (const [name, { stamp, columns }] of Object.entries(all)) {
    if (seen.get(name) === stamp) continue;
    const source = doc.get_model_by_name(name);
    if (!source) continue;
    seen.set(name, stamp);
    source.data = decodeColumns(columns);
  }
}

/** Where ranges were put; what was zoomed or panned since stays, until it is reset. @type {WeakMap<object, string>} */
const put = new WeakMap();

/** What may be set of a model now. @param {any} target @param {Record<string, any>} props */
export function leavingZoom(target, props) {
  if (!("reset_start" in props)) return props;
  const { start, end, ...rest } = props;
  const now = `${target.start},${target.end}`;
  const known = put.get(target);
  if (known !== undefined && known !== now && now !== `${target.reset_start},${target.reset_end}`) return rest;
  put.set(target, `${start},${end}`);
  return props;
}

/** Set properties of models, where they are new. @param {any} doc @param {Record<string, object>} all
 * @param {Map<string, string>} seen */
export function applyProps(doc, all, seen) {
  for (const [name, props] of Object.entries(all)) {
    const text = JSON.stringify(props);
    if (seen.get(name) === text) continue;
    const target = doc.get_model_by_name(name);
    if (!target) continue;
    seen.set(name, text);
    target.setv(leavingZoom(target, props));
  }
}

/** Change models, and lay their views out once after it: Bokeh does so anew, all of it, at every property of
 * every model that matters to the layout. @param {any[]} roots views @param {() => void} change */
export function laidOutOnce(roots, change) {
  const late = new Set();
  for (const root of roots) root.invalidate_layout = () => late.add(root);
  try {
    change();
  } finally {
    for (const root of roots) delete root.invalidate_layout; // its class has one
    for (const root of late) root.invalidate_layout();
  }
}

// ---------------------------------------------------------------- theme

const INK = {
  light: { text: "#2b3036", faint: "#e4e7eb", line: "#a3abb5" },
  dark: { text: "#d8dce2", faint: "#3a4048", line: "#7b8491" },
};

/** Whether the page is dark, by what it says of itself, else by what the reader prefers. */
export function isDark() {
  const { body, documentElement: root } = document;
  if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false"; // JupyterLab, Notebook 7
  /** @param {string[]} names */
  const says = (...names) => names.some((n) => body.classList.contains(n) || root?.classList.contains(n));
  if (says("vscode-dark", "theme-dark", "dark")) return true; // VS Code, Voila, marimo
  if (says("vscode-light", "theme-light", "light")) return false;
  const theme = root?.getAttribute("theme"); // Colab
  if (theme) return theme === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Recolour text, axes and grids; data keep their colours, which are chosen to work on both grounds.
 * @param {any} doc @param {Element} el */
export function paintTheme(doc, el) {
  const dark = isDark();
  const ink = dark ? INK.dark : INK.light;
  el.classList.toggle("gb-dark", dark);
  doc.gibbsiteDark = dark;
  for (const m of doc._all_models.values()) {
    /** @param {string} name */
    const has = (name) => name in m.properties;
    if (has("major_tick_line_color")) {
      m.setv({
        axis_label_text_color: ink.text,
        major_label_text_color: ink.text,
        axis_line_color: ink.line,
        major_tick_line_color: ink.line,
        minor_tick_line_color: null,
      });
    } else if (has("grid_line_color")) {
      if (m.grid_line_color !== null) m.setv({ grid_line_color: ink.faint });
    } else if (m.type === "Title" && !m.tags?.includes("keep")) {
      m.setv({ text_color: ink.text });
    } else if (m.type === "Legend") {
      m.setv({ label_text_color: ink.text, background_fill_alpha: 0, border_line_color: null });
    }
    // A model tagged "ink" takes the text colour of the theme.
    if (m.tags?.includes("ink") && m.glyph) {
      if ("text_color" in m.glyph.properties) m.glyph.setv({ text_color: ink.text });
      if ("line_color" in m.glyph.properties && m.glyph.line_color !== null) m.glyph.setv({ line_color: ink.text });
      if ("fill_color" in m.glyph.properties && m.tags.includes("gb")) m.glyph.setv({ fill_color: ink.text });
    }
  }
}

/** @param {() => void} repaint */
function watchTheme(repaint) {
  const observer = new MutationObserver(repaint);
  const attributeFilter = ["data-jp-theme-light", "class", "theme"];
  for (const part of [document.body, document.documentElement]) observer.observe(part, { attributes: true, attributeFilter });
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", repaint);
  return () => {
    observer.disconnect();
    media.removeEventListener("change", repaint);
  };
}

// ---------------------------------------------------------------- the static twin

/** The same display without a kernel is the next output; hide it while this one is alive. A rule does, for the twin
 * comes after the view and is drawn anew whenever it changes. Returns what shows it again. @param {string} id */
export function hideTwin(id) {
  if (!id) return () => {};
  const rule = element("style", "", `#${id}, .jp-OutputArea-child:has(#${id}) { display: none; }`);
  document.head.append(rule);
  return () => rule.remove();
}

// ---------------------------------------------------------------- the widget

const STYLE = `
.gb-view { font: 13px/1.45 var(--jp-ui-font-family, system-ui, sans-serif); color: #2b3036; max-width: 100%; }
.gb-view.gb-dark { color: #d8dce2; --gb-ink: #d8dce2; --gb-control: #23272c; --gb-rule: #555d67;
  --gb-active: #3d444d; }
.gb-error { color: #b3261e; white-space: pre-wrap; }
`;

/** @template {keyof HTMLElementTagNameMap} T @param {T} tag @param {string} [className] @param {string} [text]
 * @returns {HTMLElementTagNameMap[T]} */
export function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

const SEEN_BY = 3000; // ms after which a view that was never drawn is asked for again

/** A widget for anywidget. @param {Hooks} hooks */
export function hostWidget(hooks = {}) {
  return () => {
    let seen = false;
    return {
      // Notebooks on one kernel hear of its widgets through the first of them, each of its displays by itself: a display that is
      // heard before its widget stays empty for good.
      /** @param {{model: Model}} page */
      initialize({ model }) {
        const late = setTimeout(() => {
          try {
            if (!seen) model.send({ kind: "unseen" });
          } catch (error) {
            console.debug(error); // the kernel has put it away, or is gone: there is nobody to ask
          }
        }, SEEN_BY);
        return () => clearTimeout(late);
      },
      /** @param {{model: Model, el: HTMLElement}} page */
      async render({ model, el }) {
        seen = true;
        const style = element("style", "", STYLE + (hooks.style ?? ""));
        const body = element("div", "gb-canvas");
        el.classList.add("gb-view");
        el.append(style, body);
        let stopTheme = () => {};
        let showTwin = () => {};
        /** @type {any} */
        let cleanup;
        let forget = () => {};
        try {
          const Bokeh = await bokehOf(model);
          /** @param {string} kind @param {object} [detail] */
          const send = (kind, detail = {}) => model.send({ kind, ...detail });
          /** What is told to each document that this view has drawn. @type {Map<any, () => void>} */
          const updates = new Map();
          const update = () => {
            for (const tell of updates.values()) tell();
          };
          const repaint = () => {
            for (const doc of updates.keys()) {
              paintTheme(doc, el);
              doc.gibbsiteTheme?.(); // what a view's own script paints
            }
          };
          /** Draw a packed Bokeh item. @param {string} packed @param {HTMLElement} target */
          const draw = async (packed, target) => {
            const views = await Bokeh.embed.embed_item(await unpacked(packed), target);
            const roots = views.roots.map((/** @type {any} */ view) => view.model);
            const doc = roots[0].document;
            // CustomJS callbacks reach Python by `cb_obj.document.gibbsite?.(kind, detail)`; no-op in a page.
            doc.gibbsite = send;
            /** @param {string} code */
            doc.gibbsiteWrite = (code) => writeCell(model, code, el);
            doc.gibbsiteBox = el;
            /** @type {Map<string, number>} */
            const seenColumns = new Map();
            const seenProps = new Map();
            updates.set(doc, () =>
              laidOutOnce(views.roots, () => {
                applyColumns(doc, model.get("_columns"), seenColumns);
                applyProps(doc, model.get("_props"), seenProps);
              }),
            );
            drawn.add(doc);
            update();
            repaint();
            const remove = () => {
              drawn.delete(doc);
              updates.delete(doc);
              views.clear();
              const at = Bokeh.documents.indexOf(doc);
              if (at >= 0) Bokeh.documents.splice(at, 1);
            };
            return { doc, roots, remove };
          };
          const { doc, roots, remove } = await draw(model.get("_item"), body);
          forget = remove;
          model.on("change:_columns", update);
          model.on("change:_props", update);

          stopTheme = watchTheme(repaint);
          showTwin = hideTwin(model.get("_twin"));
          cleanup = await hooks.mount?.({ Bokeh, doc, roots, model, el, body, send, repaint, draw });
        } catch (error) {
          console.error(error);
          el.append(element("div", "gb-error", `Gibbsite could not draw this view: ${error instanceof Error ? error.message : error}`));
        }
        return () => {
          stopTheme();
          showTwin();
          if (typeof cleanup === "function") cleanup();
          forget();
        };
      },
    };
  };
}
