"""Names, labels, docstrings and data that are markup, LaTeX or control characters: nothing breaks out.

Every page, picture and cell output of a model and its run is read with a parser: no element and no attribute
that Gibbsite does not write itself, no address but of embedded pictures, and these are whole.
"""

import base64
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from shutil import which
from xml.etree import ElementTree

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.diagnostics.verdict.history import Runs
from gibbsite.errors import ModelError
from gibbsite.sampling.read_only import outside
from gibbsite.views import shown
from gibbsite.views.graph.picture import graph_svg
from gibbsite.views.plotted import plot_run
from gibbsite.views.report import report_html, status_page
from gibbsite.views.run_dashboard import Dashboard

MARKUP = "<script>alert(1)<script>\"'><img src=x onerror=alert(1)>&lt;b&gt;<!--]]>"
TEX = "$\\input{x}$ \\href{javascript:alert(1)}{y} %#_^~{"
STRANGE = "数据 אב {{7*7}} `a` %s {0} \\u202e"
LONG = '"><svg onload=alert(1)>' + "x" * 170
LABELS = [
    MARKUP,
    "a\nb\r\n\tc",
    "nul\0\x07\x1b[31m",
    "right \u202e to \u2066 left",
    "</td></script></title>" + "z" * 300,
    TEX,
]
REFUSED = (
    "a\nb",
    "a\0b",
    "a\u202eb",
    "\u200f",
    "x" * 300,
    "",
    " ",
    "../up",
    "..",
    "<b/>",
    "a\\b/c",
    "t\tb",
    "/abs",
    "a//b",
)

ELEMENTS = set(
    "html head meta title style body main header section article h1 h2 h3 div span p b i em strong table "
    "thead tbody tfoot tr th td code pre details summary br ul ol li img a svg g path rect line circle "
    "ellipse polyline polygon text tspan dl dt dd small sub sup caption colgroup col hr label".split()
)


class Page(HTMLParser):
    """What a page is made of; pictures in it too."""

    def __init__(self, markup):
        super().__init__(convert_charrefs=True)
        self.elements, self.wrong, self.words = set(), [], []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        if tag not in ELEMENTS:
            self.wrong.append(f"<{tag}>")
        for name, value in attrs:
            address = (value or "").strip().lower() if name in ("href", "src", "xlink:href", "action") else ""
            if name.startswith("on") or not re.fullmatch(r"[a-zA-Z][\w:.-]*", name):
                self.wrong.append(f"<{tag} {name}>")
            elif address.startswith("data:image/svg+xml;base64,"):
                self.picture(base64.b64decode(value.partition(",")[2]).decode())
            elif address and not address.startswith("#"):
                self.wrong.append(f"<{tag} {name}={value!r}>")

    def picture(self, svg):
        for element in ElementTree.fromstring(svg).iter():
            self.elements.add("svg")
            tag = str(element.tag).rpartition("}")[2]
            if tag not in ELEMENTS or any(name.lower().startswith("on") for name in element.attrib):
                self.wrong.append(f"a picture's <{tag} {list(element.attrib)}>")
            self.words.append(element.text or "")

    def handle_comment(self, data):
        self.wrong.append(f"a comment: {data[:40]}")

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


def hostile(groups):
    """<script>alert("of the docstring")</script>"""
    level = numpyro.sample(MARKUP, dist.Normal(0.0, 1.0))
    slope = numpyro.sample(TEX, dist.Normal(level, 1.0))
    numpyro.deterministic(LONG, slope * 2)
    with numpyro.plate("<b onclick=alert(1)>", 6):
        effect = numpyro.sample(STRANGE, dist.Normal(slope, 1.0))
    with numpyro.plate("rows", len(groups)):
        numpyro.sample("y", dist.Normal(effect[groups], 1.0), obs=np.zeros(12, np.float32))


hostile.__name__ = hostile.__qualname__ = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    folder = tmp_path_factory.mktemp("markup") / "run"
    model = gb.model(hostile, np.array(LABELS * 2)).with_schedule("RandomWalk [*]")
    return model, model.sample(draws=30, warmup=5, chains=2, seed=1, store=folder), folder


def pages(model, run, folder):
    """Everything that is written for a browser, by where it stands."""
    dashboard = Dashboard(run)
    conditional = model.conditional(MARKUP)
    labels = [s.label for s in run.diagnostics()]
    return {
        "the report": report_html(run, model),
        "the report of a loaded run": report_html(gb.load(folder), None),
        "the status page": status_page([outside(folder)], 5),
        "the graph's output": shown.bundle_of(model)["text/html"],
        "the graph's picture": graph_svg(model.graph),
        "the run's card": shown.bundle_of(run)["text/html"],
        "runs": shown.bundle_of(Runs([run, run]))["text/html"],
        "the dashboard": dashboard.static_html(),
        "a plot": plot_run(run, labels[0])._repr_mimebundle_()["text/html"],
        "two plots": plot_run(run, labels[0], labels[-1])._repr_mimebundle_()["text/html"],
        "convergence": plot_run(run, labels[-1], view="convergence")._repr_mimebundle_()["text/html"],
        "the tape": model.tape._repr_html_(),
        "the schedule": model.schedule()._repr_html_(),
        "the draws": getattr(run.draws, "_repr_html_", lambda: "")(),
        "the conditional": getattr(conditional, "_repr_html_", lambda: "")(),
    }


def test_nothing_breaks_out_of_a_page(bad):
    wrong = {}
    for where, markup in pages(*bad).items():
        page = Page(markup)
        if page.wrong:
            wrong[where] = page.wrong[:4]
        assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\u202a-\u202e\u2066-\u2069]", page.text), where
        if where in ("the report", "the dashboard", "the graph's output"):
            assert "alert(1)" in page.text, where  # it is shown, as text
    assert not wrong


def test_pictures_are_whole(bad):
    model, run, _ = bad
    for svg in (graph_svg(model.graph), str(plot_run(run).svg), str(plot_run(run, view="convergence").svg)):
        assert Page.picture and ElementTree.fromstring(svg).tag.endswith("svg")


def test_latex_holds_no_commands_of_names(bad):
    model, _, _ = bad
    for site in (MARKUP, TEX, STRANGE):
        latex = model.conditional(site)._repr_latex_()
        assert latex[0] == latex[-1] == "$" and latex.count("$") - latex.count("\\$") == 2
        assert not re.search(r"(?<!\\)\\(input|href|u202e)", latex.replace("\\\\", ""))
        plain = re.sub(r"\\[{}\\]", "", latex)
        depth = np.cumsum([(c == "{") - (c == "}") for c in plain])
        assert depth[-1] == 0 and depth.min() >= 0
        assert "\n" not in latex and not re.search(r"(?<!\\)[%#]", latex)


def test_a_saved_page_has_the_scripts_of_any_other(bad, tmp_path):
    """The interactive page and the graph for Graphviz: as many elements as with harmless names."""

    def harmless(y):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(a, 1.0), obs=y)

    counts = []
    for model in (bad[0], gb.model(harmless, np.zeros(3, np.float32))):
        model.graph.save(tmp_path / "graph.html")
        text = (tmp_path / "graph.html").read_text()
        tags = ("script", "/script", "iframe", "img")
        counts.append([len(re.findall(f"<{tag}[ >]", text)) for tag in tags])
        model.graph.save(tmp_path / "graph.dot")
        tape = model.tape.to_dot()
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', "Q", tape)
        assert '"' not in bare and "alert" not in bare
        for source in ((tmp_path / "graph.dot").read_text(), tape):
            if which("dot"):
                done = subprocess.run(["dot", "-Tplain"], input=source.encode(), capture_output=True)
                assert done.returncode == 0, done.stderr
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", REFUSED)
def test_names_that_nothing_can_hold_are_refused_at_once(name):
    def named(kind):
        a = numpyro.sample(name if kind == "site" else "a", dist.Normal(0.0, 1.0))
        with numpyro.plate(name if kind == "plate" else "p", 2):
            numpyro.sample("y", dist.Normal(a, 1.0), obs=np.zeros(2, np.float32))

    for kind in ("site", "plate"):
        with pytest.raises(ModelError, match="name"):
            gb.model(named, kind)


def test_nothing_is_written_where_a_name_says(bad):
    _, _, folder = bad
    files = [p for p in folder.parent.rglob("*") if p.is_file()]
    assert all(p.relative_to(folder) and len(p.name) < 160 for p in files)
    assert not any(set(p.name) & set('<>"\\\0\n') for p in files)
    assert Path("x").exists() is False
