"""Every plot of predictive checks, of predictions and of what is made of them, as people see it: in
JupyterLab, light and dark, 1400 and 700 pixels wide.

    python benchmarks/check_plots.py [FOLDER] [--only NAME] [--still | --cards]

Writes `NAME_light_1400.png` and so on into FOLDER (a temporary one, which it tells, where none is given).
Needs Chromium and the `dev` extra. Data and replicates are simulated by NumPy: what is looked at is the
drawing. With `--still` a bare page is photographed instead of JupyterLab, which takes seconds: pictures
alone, without the dashboard.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from gibbsite.prediction.prediction import Facts, Prediction
from gibbsite.prediction.uses.checking import (
    BINARY,
    CATEGORIES,
    CENSORED,
    CONTINUOUS,
    COUNTS,
    Checks,
    Statistic,
)
from gibbsite.prediction.uses.comparing import Compared, Entry
from gibbsite.prediction.uses.contrasting import contrast
from gibbsite.prediction.uses.deciding import decide
from gibbsite.prediction.uses.effects import Effects
from gibbsite.showing import views

WIDTHS, THEMES = (1400, 700), ("light", "dark")
DRAWS = 400
TOWNS = ("Ashford", "Bath", "Stratford-upon-Avon", "Newcastle upon Tyne", "Ely", "York")


def _statistics(data: np.ndarray, replicates: np.ndarray, **made) -> tuple[Statistic, ...]:
    return tuple(
        Statistic(t, float(f(data)), np.array([f(v) for v in replicates], float)) for t, f in made.items()
    )


def _checks(kind: str, data: np.ndarray, replicates: np.ndarray, seed: int = 0, **more) -> Checks:
    rng = np.random.default_rng(seed)
    n = len(data)
    k = np.where(rng.random(n) < 0.03, rng.uniform(0.6, 1.1, n), rng.normal(0.1, 0.15, n))
    weights = rng.dirichlet(np.full(len(replicates), 5.0), n).T
    made = _statistics(data, replicates, **{"mean(y)": np.mean, "max(y)": np.max})
    usual = {"statistics": made, "weights": weights, "pareto_k": {f"row {i}": v for i, v in enumerate(k)}}
    note = f"{len(replicates)} replicates of {n} data; PIT by leave-one-out"
    return Checks("rainfall", "y", kind, data.astype(float), replicates.astype(float), note, **(usual | more))


def _groups(count: int, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    names = TOWNS if count <= len(TOWNS) else [f"{TOWNS[i % len(TOWNS)]} {i}" for i in range(count)]
    at = rng.integers(0, count, n)
    return {names[i]: at == i for i in range(count)}


def checks() -> dict[str, Checks]:
    """One of every kind of outcome, with all that can be drawn of it."""
    rng = np.random.default_rng(1)
    n = 240
    day = np.sort(rng.uniform(0, 365, n))
    level = 12 + 6 * np.sin(day / 58) + 0.01 * day
    spread = 2.5
    numbers = level + spread * rng.standard_t(4, n)
    drawn = level + spread * rng.normal(size=(DRAWS, n))
    out = {
        "numbers": _checks(
            CONTINUOUS, numbers, drawn, over=("day", day), by="town", groups=_groups(6, rng, n),
            before=rng.normal(0, 20, (DRAWS, n)),
        ),
        "many_groups": _checks(CONTINUOUS, numbers, drawn, by="town", groups=_groups(45, rng, n)),
    }  # fmt: skip
    for name, rate in (("few_counts", 2.0), ("many_counts", 60.0)):
        y = np.where(rng.random(n) < 0.1, 0, rng.poisson(rate, n))
        out[name] = _checks(COUNTS, y, rng.poisson(rate, (DRAWS, n)), over=("day", day), by="town",
                            groups=_groups(4, rng, n),
                            statistics=_statistics(y, rng.poisson(rate, (DRAWS, n)), **{
                                "mean(y == 0)": lambda v: np.mean(v == 0), "max(y)": np.max}))  # fmt: skip
    p = 1 / (1 + np.exp(-rng.normal(0, 1.5, n)))
    out["yes_or_no"] = _checks(
        BINARY, rng.random(n) < p, rng.random((DRAWS, n)) < p, chances=np.stack([1 - p, p], 1),
        over=("day", day), by="town", groups=_groups(4, rng, n),
    )  # fmt: skip
    cuts = 1 / (1 + np.exp(-(np.array([-1.5, 0.0, 1.5]) - rng.normal(0, 1.2, n)[:, None])))
    shares = np.diff(np.c_[np.zeros(n), cuts, np.ones(n)], axis=1)
    draw = lambda m: (rng.random((m, n))[..., None] > np.cumsum(shares, 1)[None]).sum(-1)  # noqa: E731
    out["ordered"] = _checks(CATEGORIES, draw(1)[0], draw(DRAWS), chances=shares, over=("day", day))
    life = rng.weibull(1.4, n) * 30
    ends = rng.uniform(5, 60, n)
    out["censored"] = _checks(
        CENSORED, np.minimum(life, ends), rng.weibull(1.4, (DRAWS, n)) * 30, gone=life <= ends, statistics=(),
        weights=None, by="town", groups=_groups(3, rng, n),
    )  # fmt: skip
    return out


def _prediction(y: np.ndarray, group: str = "predictions", **facts) -> Prediction:
    dims = {"y": ("town",)}
    known = {"dims": dims, "labels": {"y": (TOWNS[: y.shape[2]],)}, "pairs": (1, 0, (0,), DRAWS)}
    note = "6 new rows; 4 town known, 2 new: alpha drawn from Normal(mu, tau)"
    return Prediction({"y": y}, {}, note, Facts("rainfall", group, ("y",), **(known | facts)))


def uses() -> dict[str, object]:
    """Predictions, and what is made of them."""
    rng = np.random.default_rng(2)
    town = rng.normal(size=(4, DRAWS // 4, 6)) + np.arange(6)
    a, b = (_prediction(town + shift + rng.normal(0, 0.3, town.shape)) for shift in (0.8, 0.0))
    many = rng.normal(np.linspace(0, 4, 300), 1, (4, DRAWS // 4, 300))
    unnamed = {"labels": {"y": (None,)}, "dims": {"y": ("row",)}}
    long = _prediction(many, **unnamed)
    dose = np.linspace(0, 8, 9)
    levels = [_prediction(town + 0.4 * d + rng.normal(0, 0.2, town.shape)) for d in dose]
    few = ["as usual", "half the dose", "another drug altogether"]
    orders = {f"order {k}": _prediction(np.minimum(town * 4, k) * 12 - 5 * k) for k in (5, 10, 20)}
    k = np.where(rng.random(200) < 0.04, rng.uniform(0.6, 1.2, 200), rng.normal(0.1, 0.15, 200))
    names = {f"row {i}": float(v) for i, v in enumerate(k)}
    entries = [
        Entry("with towns", -301.2, 12.0, 9.4, max(k), int((k > 0.7).sum()), 0.0, 0.0, names),
        Entry("plain", -322.9, 13.1, 3.2, 0.4, 0, -21.7, 6.6, {n: min(v, 0.4) for n, v in names.items()}),
        Entry("with towns and months", -303.0, 12.2, 14.1, 0.5, 0, -1.8, 1.9, {}),
    ]
    caveats = [
        "with towns and months: a difference below 4 says little, and its error is then not to be relied on"
    ]
    return {
        "rows": a,
        "many_rows": long,
        "replicates": _prediction(many, "posterior_predictive", observed={"y": many[0, 0]}, **unnamed),
        "contrast": contrast(a, b),
        "effects": Effects("dose", dose.tolist(), levels, "y"),
        "effects_of_words": Effects("drug", few, levels[:3], "y"),
        "decision": decide(orders, "profit = y"),
        "compared": Compared(entries, 200, caveats),
    }


def things() -> dict[str, object]:
    """All that is photographed, by name."""
    found: dict[str, object] = {f"check_{n}": c for n, c in checks().items()}
    each = checks()["numbers"]
    found |= {f"each_{n}": each.plot(each=n) for n in ("outcome", "pit")}
    return found | uses()


STILL = """<!doctype html><meta charset=utf-8><style>
body {{ margin: 0; padding: 8px 24px 8px 90px; font: 13px system-ui, sans-serif;
  background: {ground}; color: {ink} }}
pre {{ margin: 0; font-size: 12px }}</style>{html}"""
GROUNDS = {"light": ("#fff", "#111"), "dark": ("#111", "#ddd")}


def _still(browser, folder: Path, found: dict[str, object]) -> None:
    page = browser.new_page()
    for name, thing in found.items():
        html = views().bundle_of(thing)["text/html"] if not hasattr(thing, "views") else _image(thing)
        for theme in THEMES:
            ground, ink = GROUNDS[theme]
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 400})
                page.set_content(STILL.format(html=html, ground=ground, ink=ink))
                _told(page, name, theme, width, "document.documentElement")
                page.screenshot(path=folder / f"{name}_{theme}_{width}.png", full_page=True)


def _image(picture) -> str:
    return picture._repr_mimebundle_()["text/html"]


def _told(page, name: str, theme: str, width: int, element: str) -> None:
    """Say where a page is wider than its window."""
    over = page.evaluate(f"() => {element}.scrollWidth - {element}.clientWidth")
    if over > 0:
        print(f"{name}, {theme}, {width}: {over} pixels beyond the window")


# In JupyterLab: a cell for each picture, and a dashboard whose view of checks is given one after another.
CELL = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import check_plots
found = check_plots.things()
"""
DASHBOARD = """
import gibbsite as gb, numpy as np, numpyro, numpyro.distributions as dist
def plain(y):
    numpyro.sample("y", dist.Normal(numpyro.sample("mu", dist.Normal(0, 5)), 1), obs=y)
run = gb.model(plain, np.zeros(20)).sample(draws=200, chains=2)
view = run.dashboard()
view
"""
SHOWN = ".jp-Notebook-cell[data-windowed-list-index='1'] .jp-OutputArea"  # the dashboard's cell
GIVE = """
panel = view._panel._checks
panel.now, panel._sent, panel._focus = check_plots.checks()[{name!r}], (), {focus!r}
view.refresh()
"""


def _pictures(lab, folder: Path, found: dict[str, object]) -> None:
    page = lab.page
    lab.write("plots.ipynb", CELL, *(f"found[{n!r}]" for n in found))
    lab.open("plots.ipynb")
    for i in range(len(found) + 1):
        lab.run_cell(i, timeout=300)
    for theme in THEMES:
        _themed(lab, theme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 1400})
            for i, name in enumerate(found):
                lab.scroll_to(i + 1)
                at = f".jp-Notebook-cell[data-windowed-list-index='{i + 1}'] .jp-OutputArea"
                page.wait_for_timeout(300)
                page.locator(at).screenshot(path=folder / f"lab_{name}_{theme}_{width}.png")


def _cards(lab, folder: Path, wanted: list[str]) -> None:
    page = lab.page
    lab.write("dash.ipynb", CELL, DASHBOARD, "#" + 60 * "\n#")
    lab.open("dash.ipynb")
    lab.run_cell(0, timeout=300)
    lab.run_cell(1, timeout=300)
    page.locator(".gb-tab[data-view='check']").click()
    page.wait_for_selector(".gb-dash .gb-card")
    for theme in THEMES:
        _themed(lab, theme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 1900})
            for name in wanted:
                for focus in ("", *(("check outcome",) if name == "numbers" else ())):
                    lab.python(GIVE.format(name=name, focus=focus))
                    page.wait_for_timeout(1500 if focus else 700)
                    told = f"cards_{name}{'_large' if focus else ''}_{theme}_{width}"
                    page.locator(SHOWN).screenshot(path=folder / f"{told}.png")


def _lab(browser, folder: Path, found: dict[str, object], cards: bool) -> None:
    from helpers.pages.lab import Lab, start_server, stop_kernels, stop_server

    with tempfile.TemporaryDirectory() as work:
        server = start_server(Path(work))
        context = browser.new_context(viewport={"width": WIDTHS[0], "height": 1400})
        page = context.new_page()
        page.set_default_timeout(300_000)
        lab = Lab(server, page)
        try:
            if not cards:
                _pictures(lab, folder, found)
            wanted = [n.removeprefix("check_") for n in found if n.startswith("check_")]
            if wanted:
                _cards(lab, folder, wanted)
            print("complaints of the page:", lab.errors or "none")
        finally:
            stop_kernels(server, context)
            stop_server(server)


def _themed(lab, theme: str) -> None:
    lab.command("apputils:change-theme", {"theme": f"JupyterLab {theme.capitalize()}"})
    lab.page.wait_for_function(
        "light => document.body.dataset.jpThemeLight === light", arg="true" if theme == "light" else "false"
    )
    lab.page.wait_for_timeout(500)


def main() -> None:
    from helpers.pages.lab import chromium
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?", default=None)
    parser.add_argument("--only", default="", help="things whose name has this in it")
    parser.add_argument("--still", action="store_true")
    parser.add_argument("--cards", action="store_true", help="the dashboard alone")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp()) if asked.folder is None else asked.folder
    folder.mkdir(parents=True, exist_ok=True)
    print(folder)
    found = {n: t for n, t in things().items() if asked.only in n}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            if asked.still:
                _still(browser, folder, found)
            else:
                _lab(browser, folder, found, asked.cards)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
