"""The graph on a page, and what a person does to it."""

import json

from helpers import SCREENSHOTS

DOC = "(globalThis.Bokeh.documents.find(d => d.get_model_by_name('graph')))"
PLACE = """([name, doc]) => {
    const plot = doc.get_model_by_name('graph')
    const view = (globalThis.Bokeh.index ?? Bokeh.index).find_one(plot) ?? doc.views_manager.find_one(plot)
    const data = doc.get_model_by_name('graph-nodes').data
    const i = [...data.name].indexOf(name)
    const { x_scale, y_scale } = view.frame
    for (let el = view.el; el; el = el.parentNode ?? el.host) {  // large graphs lie in a box that scrolls
        if (el.scrollWidth > el.clientWidth + 20 || el.scrollHeight > el.clientHeight + 20) {
            el.scrollLeft = x_scale.compute(data.x[i]) - 300
            el.scrollTop = y_scale.compute(data.title_y[i]) - 300
            break
        }
    }
    const at = view.canvas_view.el.getBoundingClientRect().y + y_scale.compute(data.title_y[i])
    if (at < 120 || at > innerHeight - 60) view.canvas_view.el.scrollIntoView({ block: 'start' })
    const box = view.canvas_view.el.getBoundingClientRect()
    return [box.x + x_scale.compute(data.x[i]), box.y + y_scale.compute(data.title_y[i])]
}"""


class Graph:
    """A graph on a page, and what a person does to it. `doc` is JavaScript that finds its document."""

    def __init__(self, page, doc=DOC):
        self.page, self.doc = page, doc
        drawn = f"{doc}?.get_model_by_name('graph-nodes')?.data.name.length > 0"
        page.wait_for_function(f"() => {drawn}", timeout=60_000)
        page.wait_for_timeout(300)

    def ask(self, expression):
        return self.page.evaluate(f"() => {{ const doc = {self.doc}; return {expression} }}")

    def until(self, expression, **more):
        self.page.wait_for_function(f"() => {{ const doc = {self.doc}; return {expression} }}", **more)

    def place(self, name):
        """Where a node is once it rests: after a change, ranges follow the data some frames later."""
        return self.page.evaluate(
            f"""async name => {{
                const frame = () => new Promise(requestAnimationFrame)
                let before, at, same = 0
                while (same < 4) {{
                    await frame()
                    before = at
                    at = ({PLACE})([name, {self.doc}])
                    same = before && Math.hypot(at[0] - before[0], at[1] - before[1]) < 0.1 ? same + 1 : 0
                }}
                return at
            }}""",
            name,
        )

    def label(self, plate):
        """A point on a plate's label."""
        return self.page.evaluate(
            f"""plate => {{
                const doc = {self.doc}
                const plot = doc.get_model_by_name('graph')
                const view = Bokeh.index.find_one(plot) ?? doc.views_manager.find_one(plot)
                const data = doc.get_model_by_name('graph-plates').data
                const i = data.name.indexOf(plate)
                const {{ x_scale, y_scale }} = view.frame
                const shown = view.canvas_view.el
                const low = shown.getBoundingClientRect().y + view.frame.y_scale.compute(data.label_y[i])
                if (low < 120 || low > innerHeight - 60) shown.scrollIntoView({{ block: 'start' }})
                const box = shown.getBoundingClientRect()
                const aside = data.align[i] === 'left' ? 10 : -10
                const x = x_scale.compute(data.label_x[i]) + aside
                return [box.x + x, box.y + y_scale.compute(data.label_y[i]) - 4]
            }}""",
            plate,
        )

    def on_map(self, x, y):
        """A point of the drawing, on the small map of it."""
        return self.page.evaluate(
            f"""([x, y]) => {{
                const doc = {self.doc}
                const map = doc.get_model_by_name('graph-map')
                const view = Bokeh.index.find_one(map) ?? doc.views_manager.find_one(map)
                const box = view.canvas_view.el.getBoundingClientRect()
                const {{ x_scale, y_scale }} = view.frame
                return [box.x + x_scale.compute(x), box.y + y_scale.compute(y)]
            }}""",
            [x, y],
        )

    @property
    def scrolled(self):
        """How far the drawing is scrolled, in pixels."""
        return self.page.evaluate(
            f"""() => {{
                const doc = {self.doc}
                const model = doc.get_model_by_name('graph-scroll')
                const view = Bokeh.index.find_one(model) ?? doc.views_manager.find_one(model)
                return [view.el.scrollLeft, view.el.scrollTop]
            }}"""
        )

    def hover(self, name):
        self.page.mouse.move(*self.place(name))

    def click(self, name, key=None):
        if key:
            self.page.keyboard.down(key)
        self.page.mouse.click(*self.place(name))
        if key:
            self.page.keyboard.up(key)
        self.page.wait_for_timeout(280)  # a tap waits for a second one

    def type_in(self, placeholder, text):
        """Type into the newest field whose hint begins so."""
        self.page.get_by_placeholder(placeholder).last.fill(text)

    def press_button(self, name):
        """Press the newest button of that name."""
        self.page.get_by_role("button", name=name, exact=True).last.click()

    @property
    def names(self):
        return self.ask("[...doc.get_model_by_name('graph-nodes').data.name]")

    def column(self, name):
        data = f"doc.get_model_by_name('graph-nodes').data.{name}"
        return dict(zip(self.names, self.ask(f"[...{data}]"), strict=True))

    def tells(self, *words):
        """Wait until the panel's text has all these words: it follows a click when the page comes to it."""
        text = "doc.get_model_by_name('graph-panel').text.replace(/<style>.*?<\\/style>/gs, '')"
        self.until(f"(t => {json.dumps(words)}.every(w => t.includes(w)))({text}.replace(/<[^>]+>/g, ' '))")

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    @property
    def focused(self):
        """What the focused element is called, through all shadow roots."""
        return self.page.evaluate(
            """() => {
                let at = document.activeElement
                while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement
                return at?.getAttribute('aria-label') ?? ''
            }"""
        )

    def lit(self, names):
        wanted = json.dumps(sorted(names), separators=(",", ":"))
        self.until(
            "(() => { const d = doc.get_model_by_name('graph-nodes').data;"
            f"return JSON.stringify([...d.name].filter((_, i) => d.lit[i]).sort()) === '{wanted}' }})()"
        )


def shot(page, name):
    """Write a screenshot for a person to look at."""
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
