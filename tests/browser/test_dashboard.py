"""A run's dashboard in a real JupyterLab: it follows the run, stops it, and outlives the page."""

import re

import pytest
from helpers.pages.lab import prepare

LONG = "run = %sample mixture --draws 1000000 --warmup 300 --chains 4 --seed 0"
BACKGROUND = """
from gibbsite.views import Dashboard
run = mixture.start(draws=1000000, warmup=300, chains=2, seed=0, thin=5)
Dashboard(run, slots=1)
"""
# How many draws the traces show, and which parameters: read from the page's own documents, in the order in
# which they stand there (a page that is read again draws them in any).
TRACES = """() => [...(globalThis.__gibbsiteDocuments ?? [])]
    .filter(doc => doc.get_model_by_name('trace0'))
    .map(doc => [doc, globalThis.Bokeh.index.find_one(doc.roots()[0])?.el])
    .map(([doc, el]) => [doc, el?.getBoundingClientRect().top ?? Infinity])
    .sort(([, a], [, b]) => a - b)
    .map(([doc]) => {
        const draw = doc.get_model_by_name('trace0').data.draw
        return {last: draw.length ? draw[draw.length - 1] : -1, points: draw.length,
                marks: doc.get_model_by_name('run0').data.rhat.length,
                title: doc.get_model_by_name('title trace0').text}
    })"""
POINTED = """() => {
    const table = document.querySelector('.gb-dash .gb-scroll').parentElement;
    window.held = () => table.matches(':hover') && !window.left;
    window.left = false;
    table.addEventListener('pointerleave', () => { window.left = true }, { once: true });
}"""
ROWS = "() => [...document.querySelectorAll('.gb-dash tbody tr')].map(tr => tr.dataset.label)"


def traces(lab):
    return lab.page.evaluate(TRACES)


def wait_last(lab, beyond, which=0, timeout=120):
    """Wait until a dashboard's first trace reaches beyond a draw; returns where it is."""
    lab.page.wait_for_function(
        f"([k, beyond]) => (({TRACES})()[k]?.last ?? -1) > beyond",
        arg=[which, beyond],
        timeout=1000 * timeout,
    )
    return traces(lab)[which]["last"]


def wait_draws(lab, which=0):
    """Wait until a dashboard's first trace shows draws, and no warm-up any more; returns where it is."""
    lab.page.wait_for_function(
        f"k => (t => t && !t.title.includes('warm-up') && t.last > 0)(({TRACES})()[k])",
        arg=which,
        timeout=120_000,
    )
    return traces(lab)[which]["last"]


# What a browser asks a person, answered; and a page that nobody looks at.
ASKED = """() => {
    window.Notification = class {
        static permission = 'granted'
        static requestPermission = async () => 'granted'
        constructor(words) { (window.notified ??= []).push(words) }
    }
    Object.defineProperty(document, 'hidden', { value: true, configurable: true })
}"""


def test_sample_follows_the_run_and_stop_keeps_its_draws(lab):
    prepare(lab, "live.ipynb", LONG, "#" + 60 * "\n#")
    lab.run_cell(0, wait=False)
    lab.page.wait_for_selector(".gb-dash .gb-pill")
    first = wait_draws(lab)
    second = wait_last(lab, first)
    assert second > first
    lab.shot("dashboard_live")

    # The chooser works while the cell runs: no row moves under the pointer, and what was chosen stays there.
    for _ in range(5):  # what grows above the table may take it from under the pointer
        lab.page.locator(".gb-dash tbody tr").first.hover()
        lab.page.evaluate(POINTED)
        before = lab.page.evaluate(ROWS)
        second = wait_last(lab, second)
        held, after = lab.page.evaluate(f"() => [window.held(), ({ROWS})()]")
        if held:
            break
    assert held and after[: len(before)] == before
    label = lab.page.evaluate(
        "() => [...document.querySelectorAll('.gb-dash tbody tr')].find("
        "tr => !tr.querySelector('input').checked).dataset.label"
    )
    row = lab.page.locator(f".gb-dash tbody tr[data-label='{label}']")
    row.locator("input").click()
    row.locator(".gb-stroke:not(:empty)").wait_for()
    lab.page.mouse.move(5, 5)
    wait_last(lab, wait_last(lab, second))
    assert label in lab.page.evaluate(ROWS)
    assert traces(lab)[0]["points"] <= 500

    # Out of sight: state, Stop and progress stay in sight, in the corner and in the title; a wish to be told.
    lab.page.evaluate(ASKED)
    lab.page.locator(".gb-head [data-act=notice]").check()
    lab.page.set_viewport_size({"width": 1280, "height": 500})
    lab.scroll_to(1)
    mini = lab.page.locator(".gb-mini")
    mini.wait_for(state="visible")
    assert re.fullmatch(r"mixture \d+ %samplingStop", mini.text_content())
    lab.page.wait_for_function(r"() => /^\d+ % mixture · /.test(document.title)")
    lab.shot("dashboard_out_of_sight")
    lab.command("apputils:change-theme", {"theme": "JupyterLab Dark"})
    lab.page.wait_for_selector(".gb-view.gb-dark > .gb-mini")
    mini.get_by_role("button", name="Stop").click()
    lab.wait_cell(0, timeout=60)
    mini.wait_for(state="hidden")
    lab.page.wait_for_function("() => window.notified?.length === 1")
    assert lab.page.evaluate("() => notified[0]").startswith("mixture: stopped early")
    assert "% mixture" not in lab.page.title()
    lab.page.evaluate("() => { delete document.hidden; localStorage.removeItem('gibbsite-notify') }")

    lab.page.set_viewport_size({"width": 1280, "height": 1700})
    lab.scroll_to(0)
    lab.page.wait_for_selector(".gb-pill:has-text('stopped early, draws kept')")
    assert lab.page.locator(".gb-stop").count() == 0
    status, chains, draws = lab.python("print(run.status, *run.draws['mu'].shape[:2])").split()
    assert (status, chains) == ("stopped", "4")
    assert second <= int(draws) < 1_000_000
    assert lab.python("import numpy; print(numpy.isfinite(run.draws['mu']).all())").strip() == "True"
    lab.page.wait_for_selector(".gb-view.gb-dark .gb-head")
    lab.page.wait_for_timeout(300)
    lab.shot("dashboard_dark")
    lab.command("apputils:change-theme", {"theme": "JupyterLab Light"})
    lab.page.wait_for_selector(".gb-view.gb-dark", state="detached")
    lab.assert_quiet()


def test_kernel_interrupt_ends_the_run_with_its_draws(lab):
    prepare(lab, "interrupt.ipynb", LONG)
    lab.run_cell(0, wait=False)
    seen = wait_draws(lab)
    lab.command("notebook:interrupt-kernel")
    lab.wait_cell(0, timeout=60)
    status, draws = lab.python("print(run.status, run.draws['mu'].shape[1])").split()
    assert status == "stopped" and seen <= int(draws) < 1_000_000
    lab.page.wait_for_selector(".gb-pill:has-text('stopped early, draws kept')")
    lab.assert_quiet()


def test_a_run_whose_kernel_is_restarted_is_told_to_have_ended(lab, tmp_path):
    """It was "sampling" for ever, and its Stop "Stopping…"."""
    prepare(lab, "restarted.ipynb", f"{LONG} --store {tmp_path / 'run'}")
    lab.run_cell(0, wait=False)
    wait_draws(lab)
    lab.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    lab.page.wait_for_selector(".gb-pill:has-text('kernel ended')", timeout=60_000)
    assert lab.page.locator(".gb-stop, .gb-halt").count() == 0
    said = lab.page.locator(".gb-message").first.text_content()
    assert re.search(r"draws are on disk.*--resume auto", said)
    lab.shot("dashboard_without_kernel")
    # what JupyterLab asks the new kernel is answered: it complains of what is asked of one that is gone
    idle = "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'"
    lab.page.wait_for_function(idle, timeout=60_000)
    lab.page.wait_for_timeout(2000)


@pytest.mark.slow
def test_two_runs_at_once_and_a_reload_in_mid_run_brings_the_dashboard_back(lab):
    second = BACKGROUND.replace("run =", "other =").replace("(run,", "(other,").replace("seed=0", "seed=1")
    prepare(lab, "two.ipynb", BACKGROUND, second)
    # High enough that JupyterLab keeps both outputs in the page.
    lab.page.set_viewport_size({"width": 1280, "height": 2200})
    lab.run_cell(0)
    lab.run_cell(1)
    # The traces show the warm-up too.
    lab.page.wait_for_function(
        "() => ['sampling', 'sampling'].every("
        "(word, k) => document.querySelectorAll('.gb-pill')[k]?.textContent === word)"
    )
    first, other = wait_draws(lab, 0), wait_draws(lab, 1)
    lab.page.locator(".gb-stop").nth(1).click()
    lab.page.wait_for_function(
        "() => document.querySelectorAll('.gb-pill')[1]?.textContent.startsWith('stopped early')"
    )
    assert lab.python("print(run.status, other.wait().status)").split() == ["sampling", "stopped"]
    # A button makes the draws that are left, from where it was; it can be stopped again.
    kept = int(lab.python("print(other.draws['mu'].shape[1])"))
    lab.page.locator(".gb-on").get_by_role("button", name="Resume").click()
    wait_last(lab, kept, 1)
    lab.page.locator(".gb-stop").nth(1).click()
    lab.page.locator(".gb-on").get_by_role("button", name="Resume").wait_for()
    told = lab.python(f"print(run.status, other.wait().status, other.draws['mu'].shape[1] > {kept})")
    assert told.split() == ["sampling", "stopped", "True"]
    before = wait_last(lab, first, 0)
    assert other > 0
    lab.save()
    lab.reload()
    # What was drawn before is there again, and it goes on.
    after = wait_last(lab, before)
    wait_last(lab, after)
    lab.page.wait_for_function(f"() => ({TRACES})()[0]?.marks > 0")
    lab.shot("dashboard_reloaded")
    lab.page.locator(".gb-stop").click()
    lab.page.wait_for_selector(".gb-pill:has-text('stopped early, draws kept')")
    assert lab.python("print(run.wait().status)").strip() == "stopped"
    lab.assert_quiet()


WARMING = BACKGROUND.replace("draws=1000000, warmup=300", "draws=400, warmup=4000000")


@pytest.mark.slow
def test_warm_up_is_seen(lab):
    prepare(lab, "warmup.ipynb", WARMING)
    lab.run_cell(0)
    first = wait_last(lab, 1)
    assert "warm-up: not counted" in traces(lab)[0]["title"] and traces(lab)[0]["marks"] == 0
    lab.page.wait_for_selector(".gb-stage:has-text('no draws')")
    wait_last(lab, first)
    lab.shot("dashboard_warmup")
    lab.page.locator(".gb-stop").click()
    lab.page.wait_for_selector(".gb-pill:has-text('stopped early')")
    assert lab.python("print(run.wait().draws['mu'].shape)").strip() == "(2, 0, 3)"

    lab.assert_quiet()


SHORT = """
few = mixture.sample(draws=20, warmup=5, chains=4, schedule='Gibbs z (*) NUTS *')
few.dashboard()
"""


@pytest.mark.slow
def test_advice_and_time_by_block(lab):
    prepare(lab, "advice.ipynb", SHORT)
    lab.run_cell(0)
    warned = lab.page.locator(".gb-warning", has=lab.page.locator("summary")).first
    warned.locator("summary").click()
    warned.locator("li").first.wait_for(state="visible")
    lab.page.locator(".gb-measure").click()
    lab.page.wait_for_selector(".gb-bar")
    assert warned.locator("details").get_attribute("open") is not None  # a repaint keeps it unfolded
    lab.shot("dashboard_advice")
    lab.assert_quiet()


POSTERIOR = """
coin = pandas.Series(pandas.Categorical(list("abc" * 30)), name="coin")
model = gibbsite.model(coins, coin, numpy.tile([1, 0, 1], 30))
"""
COINS = """
%load_ext gibbsite
import gibbsite, numpy, numpyro, pandas
import numpyro.distributions as dist
def coins(coin, heads):
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("coin", 3):
        p = numpyro.sample("p", dist.Beta(2, 2))
    numpyro.sample("heads", dist.Bernoulli(p[coin]), obs=heads)
"""


@pytest.mark.slow
def test_posterior_view_expression_pair_and_files(lab):
    lab.write("posterior.ipynb", COINS, POSTERIOR, "run = %sample model --draws 1500 --warmup 200 --chains 4")
    lab.open("posterior.ipynb")
    for cell in range(3):
        lab.run_cell(cell)
    page = lab.page
    page.wait_for_selector(".gb-pill:has-text('finished, converged')")
    lab.scroll_to(2)
    page.wait_for_selector(".gb-tab[data-view=posterior][aria-selected=true]")
    assert page.locator(".gb-card").count() == 2
    # by keyboard alone: the expression box, a mistake with its place, then a quantity
    box = page.locator(".gb-expression input")
    box.focus()
    page.keyboard.type("p[bb] - a")
    page.keyboard.press("Enter")
    page.wait_for_selector(".gb-refused:has-text('did you mean')")
    assert "^" in page.locator(".gb-refused").inner_text()
    box.fill("lift = p[a] - p[b]")
    page.keyboard.press("Enter")
    page.wait_for_selector(".gb-picture[data-label=lift]")
    assert box.input_value() == ""
    assert lab.python("print(*run.derived, 'lift' in run.summary().index)").split() == ["lift", "True"]
    card = page.locator(".gb-picture[data-label=lift]")
    card.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".gb-large .bk-Row")
    page.locator(".gb-row[data-label='p[2]']").click()
    page.wait_for_function(
        "() => [...globalThis.__gibbsiteDocuments].some(doc => doc.get_model_by_name('plot pair'))"
    )
    page.locator(".gb-choice input[data-group='chain 1']").uncheck()
    hidden = """() => [...globalThis.__gibbsiteDocuments].flatMap(doc => [...doc._all_models.values()])
        .filter(m => m.glyph && m.tags.includes('chain 1')).every(m => !m.visible)"""
    assert page.evaluate(hidden)
    page.locator(".gb-choice input[data-group='chain 1']").check()
    # what is under the pointer is told: of every chain's line
    told = """() => [...globalThis.__gibbsiteDocuments].flatMap(doc => [...doc._all_models.values()])
        .some(m => m.type === 'HoverTool' && m.renderers.some(r => r.name === 'chain 1'))"""
    assert page.evaluate(told)
    # files
    for format, start in (("svg", b"<svg"), ("png", b"\x89PNG")):
        with page.expect_download() as told:
            page.locator(f"[data-format={format}]").click()
        assert told.value.suggested_filename == f"coins-posterior.{format}"
        assert told.value.path().read_bytes().startswith(start)
    # narrow and dark: nothing is wider than the page, nor out of reach
    lab.command("application:toggle-left-area")
    page.set_viewport_size({"width": 600, "height": 1400})
    lab.command("apputils:change-theme", {"theme": "JupyterLab Dark"})
    page.wait_for_selector(".gb-view.gb-dark")
    page.wait_for_timeout(800)
    within = """() => {
        const room = document.querySelector('.gb-views').getBoundingClientRect()
        const doc = [...globalThis.__gibbsiteDocuments].find(doc => doc.get_model_by_name('plot pair'))
        const widths = ['focus0', 'focus1', 'pair'].map(n => doc.get_model_by_name(`plot ${n}`).outer_width)
        const cards = [...document.querySelectorAll('.gb-card')].map(card => card.getBoundingClientRect())
        return {room: [room.right, innerWidth], cards: [room.right + 1, ...cards.map(card => card.right)],
            plots: [room.width + 1, ...widths]}
    }"""
    right, most = page.evaluate(within)["room"]
    assert right <= most
    for part in ("cards", "plots"):
        limit, *found = page.evaluate(within)[part]
        assert found and max(found) <= limit and min(found) > 150, (part, limit, found)
    lab.shot("posterior_narrow_dark")
    page.locator(".gb-tab[data-view=convergence]").click()
    page.wait_for_selector(".gb-canvas:not([hidden])")
    page.set_viewport_size({"width": 1400, "height": 1400})
    # linked axes: where one trace is zoomed the others follow, and new draws leave it so
    zoom = """() => {
        const doc = [...globalThis.__gibbsiteDocuments].find(doc => doc.get_model_by_name('plot trace0'))
        const range = name => doc.get_model_by_name(name).x_range
        range('plot trace0').setv({start: 100, end: 200})
        return [range('plot trace1').start, range('plot trace2').end]
    }"""
    assert page.evaluate(zoom) == [100, 200]
    lab.command("apputils:change-theme", {"theme": "JupyterLab Light"})
    lab.assert_quiet()


# XLA held up for as long as the test looks
HELD = """
import threading
from gibbsite.sampling.engine import engine
real, go = engine.compiled, threading.Event()
engine.compiled = lambda lowered, **how: (go.wait(120), real(lowered, **how))[1]
"""


@pytest.mark.slow
def test_the_clock_moves_while_programs_are_compiled_and_stop_is_answered(lab):
    run = "run = %sample mixture --draws 20 --warmup 20 --chains 3"
    prepare(lab, "compiling.ipynb", HELD, run)
    lab.run_cell(0)
    lab.run_cell(1, wait=False)
    # analysing and tracing come first, under the same pill
    lab.page.wait_for_selector(".gb-progress:has-text('compiling')", timeout=120_000)
    clock = "() => document.querySelector('.gb-progress').textContent"
    seen = [lab.page.evaluate(clock)]
    assert "compiling" in seen[0] and "traced" not in seen[0] and "left" not in seen[0]
    for _ in range(3):
        lab.page.wait_for_function(f"before => ({clock})() !== before", arg=seen[-1], timeout=20_000)
        seen.append(lab.page.evaluate(clock))
    assert len(set(seen)) == 4
    lab.page.locator(".gb-stop").click()
    lab.wait_cell(1, timeout=30)
    lab.page.wait_for_selector(".gb-pill:has-text('stopped')")
    assert lab.python("print(run.status, go.is_set(), 1 + 1)").split() == ["stopped", "False", "2"]
    # what is under way is taken over
    resumed = lab.python(
        "go.set(); print(run.resume().status, run.draws['mu'].shape); engine.compiled = real"
    )
    assert resumed.startswith("finished (3, 20")
    lab.assert_quiet()


EARLY = """
from gibbsite.views import dashboard
run = mixture.sample(draws=200, warmup=100, chains=2, seed=0)
early = dashboard(run).widget
name = early.model_id
early.put_away()
early.widget_mime = lambda: {"application/vnd.jupyter.widget-view+json":
                             {"version_major": 2, "version_minor": 0, "model_id": name}}
early.show()
del early.widget_mime
early._model_id = name
early.widget_mime()
"""


def test_a_dashboard_that_a_page_hears_of_too_late_is_drawn_in_the_end(lab):
    """Its widget comes after its display, as it may where notebooks share a kernel."""
    prepare(lab, "early.ipynb", EARLY)
    lab.run_cell(0)
    lab.page.wait_for_selector(".gb-view .gb-pill:has-text('finished')", timeout=30_000)
    assert "model not found" not in lab.page.locator(".jp-OutputArea").first.inner_text()
