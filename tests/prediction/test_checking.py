"""Predictive checks against closed forms, by hand, and of models that are wrong."""

import time
from dataclasses import replace

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import DataError, ExpressionError, ModelError, OptionError, UnknownNameError
from gibbsite.prediction.uses.checking import Checks
from gibbsite.prediction.verbs import predict
from gibbsite.views.plots.plot import tables_of
from gibbsite.views.predictions.checks import large_rows, plots_of_checks
from gibbsite.views.run_dashboard import Dashboard
from scipy import stats

RNG = np.random.default_rng(7)
N = 60
CUTS = np.array([-1.0, 1.0])
FRAME = pd.DataFrame({"town": RNG.choice(["Ada", "Box", "Cob"], N), "x": RNG.normal(size=N)})
FRAME["y"] = FRAME.x + RNG.normal(size=N)


def line(df):
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("row", len(df)):
        numpyro.sample("y", dist.Normal(b * df["x"], 1.0), obs=df["y"])


@pytest.fixture(scope="module")
def run():
    return gb.model(line, FRAME).sample(draws=1000, warmup=100, chains=2)


@pytest.mark.slow
def test_each_datum_is_held_against_what_the_others_say(run):
    found = run.checks(draws=2000, statistics=["top = max(y) - min(y)"], by=FRAME.town, prior=True)
    assert found.kind == "continuous"
    x, y = FRAME.x.to_numpy(), FRAME.y.to_numpy()
    precision = 1 + np.sum(x**2) - x**2
    mean = (np.sum(x * y) - x * y) / precision * x
    exact = stats.norm.cdf(y, mean, np.sqrt(1 + x**2 / precision))
    assert np.abs(found.pit - exact).max() < 4 * 0.5 / np.sqrt(1000)
    band = found.uniform
    assert np.all((band.low <= band.y) & (band.y <= band.high))
    table = found.to_frame()
    assert table.loc["top = max(y) - min(y)", "seen"] == pytest.approx(np.ptp(y), rel=1e-5)
    mean_row = table.loc["mean(y)"]
    slope = np.sum(x * y) / (1 + np.sum(x**2))
    spread = np.sqrt(1 / N + x.mean() ** 2 / (1 + np.sum(x**2)))
    assert mean_row["p"] == pytest.approx(stats.norm.sf(y.mean(), slope * x.mean(), spread), abs=0.06)
    np.testing.assert_allclose(found.before.var(axis=0), 1 + x**2, rtol=0.25)
    assert list(found.groups) == ["Ada", "Box", "Cob"]
    assert sum(at.sum() for at in found.groups.values()) == N
    assert len(found.pareto_k) == N
    assert "PIT by leave-one-out" in found.note
    picture = found.plot()
    assert picture.svg.startswith("<svg")
    assert "LOO-PIT" in picture.svg
    assert "data in ink" in found._repr_mimebundle_()["text/html"]


@pytest.mark.slow
def test_every_plot_can_be_had_of_each_group(run):
    found = run.checks(by="town", over="x", statistics=["mean(y > 1)"], prior=True)
    town = FRAME.town.to_numpy()
    box = found.of("Box")
    np.testing.assert_allclose(box.data, FRAME.y[town == "Box"], rtol=1e-6)
    np.testing.assert_allclose(box.pit, found.pit[town == "Box"], atol=1e-12)
    assert set(box.pareto_k) == {n for n, t in zip(found.pareto_k, town, strict=True) if t == "Box"}
    seen = {s.text: s for s in box.statistics}
    assert seen["mean(y > 1)"].seen == pytest.approx(np.mean(FRAME.y[town == "Box"] > 1))
    at = found.replicates[:, town == "Box"]
    np.testing.assert_allclose(seen["max(y)"].draws, at.max(axis=1))
    np.testing.assert_allclose(seen["mean(y > 1)"].draws, (at > 1).mean(axis=1))
    row = found.to_frame().loc["mean(y > 1) of Box"]
    assert (row["seen"], row["mean"]) == pytest.approx((seen["mean(y > 1)"].seen, (at > 1).mean()))
    names = found.plots
    assert {"outcome", "pit", "along", "by", "mean(y > 1)", "max(y)", "pareto"} <= set(names)
    for name in set(names) - {"by"}:
        picture = found.plot(each=name).svg
        assert all(f"{t}, {np.sum(town == t)} data" in picture for t in ("Ada", "Box", "Cob")), name
    rows = large_rows(found, "check pit", 200)
    assert len(rows) == 2
    assert len(tables_of(rows)) == sum(len(p.tables) for row in rows for p in row) == 4
    for wrong in ("by", "rootogram"):
        with pytest.raises(UnknownNameError, match="plot by group"):
            found.plot(each=wrong)
    with pytest.raises(UnknownNameError, match="no group"):
        found.of("Dot")
    with pytest.raises(UnknownNameError):
        run.checks().plot(each="pit")


@pytest.mark.slow
def test_series_of_the_rows_in_another_order_go_by_their_labels():
    """They went by place, and groups were of other rows, in silence."""
    for frame in (FRAME, FRAME.set_index(pd.Index([f"r{k}" for k in range(N)]))):
        run = gb.model(line, frame).sample(draws=100, warmup=100, chains=2)
        other = frame.sample(frac=1, random_state=3)
        for town in ("Ada", "Box"):
            seen = run.checks(by=other.town).of(town).to_frame().loc["mean(y)", "seen"]
            assert seen == pytest.approx(frame[frame.town == town].y.mean(), rel=1e-5)
        assert run.elpd(by=other.town).elpd == run.elpd(by=frame.town).elpd
        moved = run.predict(do={"x": other.x}).expected["y"]
        np.testing.assert_allclose(moved, run.predict().expected["y"], rtol=1e-5)
        given = pd.Series([9.0] + [np.nan] * (N - 1), index=frame.index[::-1])
        with pytest.warns(UserWarning, match="worth"):
            found = run.predict(frame[["x"]], given={"y": given}).draws["y"]
        assert (found[..., -1] == 9.0).all() and not (found[..., 0] == 9.0).any()
        several = gb.contrast(run.predict(do={"x": frame.x + (frame.town == "Ada")}), run.predict())
        table = several.to_frame(by=other.town)
        assert abs(table.loc["Box", "mean"]) < 1e-6 < 0.5 < table.loc["Ada", "mean"]


def by_element(y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    for i in range(len(y)):
        numpyro.sample(f"y[{i}]", dist.Normal(a, 1), obs=y[i])


def at_once(y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(a, 1), obs=y)


@pytest.mark.slow
def test_data_of_a_loop_are_checked_and_scored_as_one():
    """`y[i] ~ …` in a loop: elpd ended in a `KeyError`, and there was nothing to check."""
    y = np.array([0.1, 0.2, 0.3, 0.9, -1.0, 2.0])
    one, other = (gb.model(m, y).sample(draws=1000, chains=2, seed=0) for m in (by_element, at_once))
    assert one.elpd().elpd == pytest.approx(other.elpd().elpd, abs=0.05)
    assert list(one.elpd().pareto_k["datum"].values) == [f"y[{i}]" for i in range(6)]
    assert one.elpd(kfold=3).elpd == pytest.approx(other.elpd(kfold=3).elpd, abs=0.1)
    mine, theirs = one.checks(), other.checks()
    np.testing.assert_allclose(mine.data, theirs.data)
    np.testing.assert_allclose(mine.to_frame()["seen"], theirs.to_frame()["seen"])
    assert mine.weights is not None and len(mine.pareto_k) == 6
    assert set(mine.plots) == set(theirs.plots)
    part = one.checks(by=np.array(list("aabbcc"))).of("b").to_frame()
    assert part.loc["mean(y)", "seen"] == pytest.approx(0.6)


def test_a_single_datum_is_checked(tmp_path):
    def two():
        a = numpyro.sample("a", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(a, 1), obs=0.3)
        numpyro.sample("z", dist.Normal(a, 1), obs=0.4)

    run = gb.model(two).sample(draws=200, chains=2, seed=0)
    assert run.checks("z").plot() is not None
    run.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_what_cannot_be_checked(run):
    for wrong, error in (
        ({"site": "z"}, UnknownNameError),
        ({"by": "village"}, UnknownNameError),
        ({"over": "t"}, UnknownNameError),
        ({"by": [1, 2]}, DataError),
        ({"statistics": ["max(q)"]}, ExpressionError),
        ({"statistics": ["y - 1"]}, OptionError),
        ({"statistics": [3]}, OptionError),
    ):
        with pytest.raises(error):
            run.checks(**wrong)

    def nothing():
        numpyro.sample("a", dist.Normal(0, 1))

    with pytest.raises(ModelError, match="observes nothing"):
        gb.model(nothing).sample(draws=50, warmup=50, chains=2).checks()


def test_a_prior_is_checked_before_any_run():
    found = gb.model(line, FRAME).checks(draws=500, over="x")
    assert found.replicates.shape == (500, N)
    np.testing.assert_allclose(found.over[1], FRAME.x, rtol=1e-6)


def made(kind, **more):
    facts = {"model_name": "m", "site": "y", "note": "", "kind": kind}
    return Checks(**facts, **more)


def test_chances_that_are_wrong_leave_the_band():
    chance = RNG.uniform(0.02, 0.98, 600)
    y = (RNG.random(600) < chance).astype(float)
    right = np.stack([1 - chance, chance], axis=1)
    sharp = np.clip(1.8 * (chance - 0.5) + 0.5, 0.01, 0.99)  # too sure of itself
    wrong = np.stack([1 - sharp, sharp], axis=1)
    outside = []
    for chances in (right, wrong):
        found = made("binary", data=y, replicates=np.zeros((2, 600)), chances=chances).calibration()
        assert np.all(np.diff(found.y) >= 0)
        outside.append(np.mean((found.y < found.low) | (found.y > found.high)))
    assert outside[0] < 0.1 < outside[1]
    # pools of adjacent violators, by hand
    small = np.array([[0.9, 0.1], [0.7, 0.3], [0.5, 0.5], [0.2, 0.8]])
    by_hand = made("binary", data=np.array([0.0, 1.0, 0.0, 1.0]), replicates=np.zeros((2, 4)), chances=small)
    np.testing.assert_allclose(by_hand.calibration().y, [0, 0.5, 0.5, 1])


def test_survival_is_that_of_kaplan_and_meier():
    # Freireich et al. (1963), 6-MP: the first steps are in every textbook
    time = np.array([6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35], float)
    gone = np.array([1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0], bool)
    found = made("censored", data=time, replicates=np.tile(time, (3, 1)), gone=gone).survival()
    at = dict(zip(found.x, found.y, strict=True))
    for t, share in ((6, 0.857), (7, 0.807), (10, 0.753), (13, 0.690), (16, 0.627), (22, 0.538), (23, 0.448)):
        assert at[t] == pytest.approx(share, abs=5e-4)


@pytest.mark.slow
def test_every_kind_of_outcome_has_its_plots():
    x = FRAME.x.to_numpy()
    cuts = np.array([-1.0, 0.5])

    def counts(x, y):
        a = numpyro.sample("a", dist.Normal(0, 1))
        numpyro.sample("y", dist.Poisson(jnp.exp(a + 0 * x)), obs=y)

    def yes(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Bernoulli(logits=b * x), obs=y)

    def ordered(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.OrderedLogistic(b * x, cuts), obs=y)

    def ends(x, y, alive):
        rate = numpyro.sample("rate", dist.Gamma(1, 1))
        base = dist.Exponential(jnp.full(len(y), rate))
        numpyro.sample("y", dist.RightCensoredDistribution(base, censored=alive), obs=y)

    times = RNG.exponential(2, N)
    zeros = np.where(RNG.random(N) < 0.5, 0, RNG.poisson(6, N))
    cases = (
        (counts, (x, zeros), "counts", "rootogram"),
        (yes, (x, (RNG.random(N) < 0.5).astype(int)), "binary", "share by its chance"),
        (ordered, (x, RNG.integers(0, 3, N)), "categories", "y ≥ 2"),
        (ends, (x, np.minimum(times, 3), times > 3), "censored", "lives on"),
    )
    for fn, args, kind, word in cases:
        found = gb.model(fn, *args).sample(draws=200, warmup=200, chains=2).checks()
        assert found.kind == kind
        assert word in found.plot().svg
        if kind == "censored":  # whose replicates are not cut off: the true model had p of 1
            with pytest.raises(OptionError, match=r"'max\(y\)' is of censored data"):
                gb.model(fn, *args).sample(draws=20, chains=1).checks(statistics=["max(y)"])
    # half of the counts are zero, which a Poisson distribution never has
    found = gb.model(counts, x, zeros).sample(draws=200, warmup=200, chains=2).checks()
    assert found.to_frame().loc["zeros(y)", "p"] == 0


@pytest.mark.slow
def test_the_dashboard_has_a_view_of_checks(run, tmp_path):
    view = Dashboard(run)
    status = view.widget._status

    def heard(kind, **detail):
        view.widget._control._receive(None, {"kind": kind, **detail}, [])
        view.refresh()
        return view.widget._status

    status = heard("view", view="check")
    assert status["view"] == "check"
    cards = view.widget._posterior["cards"]
    assert any(c["words"].startswith("LOO-PIT") for c in cards)
    status = heard("derive", text="max(y)-1")
    assert not status["expression_note"]
    label = next(c["label"] for c in view.widget._posterior["cards"] if c["derived"] == "max(y)-1")
    heard("focus", label=label)
    assert view.widget._posterior["focus"] == [label]
    assert view.widget._focus["item"]
    status = heard("derive", text="max(q)")
    assert "q" in status["expression_note"]["sentence"]
    heard("forget", name="max(y)-1")
    assert not any(c["derived"] for c in view.widget._posterior["cards"])
    heard("derive", text="by town")
    label = next(c["label"] for c in view.widget._posterior["cards"] if c["derived"] == "by town")
    heard("focus", label="check pit")
    assert "pit Box" in view.widget._focus["key"]  # large, with the same of every group below
    heard("derive", text="by village")
    assert "village" in view.widget._status["expression_note"]["sentence"]
    heard("forget", name="by town")
    assert label not in [c["label"] for c in view.widget._posterior["cards"]]
    heard("save", format="svg")
    assert "LOO-PIT" in view.widget._file["svg"]
    heard("view", view="posterior")
    assert any(c["label"] == "b" for c in view.widget._posterior["cards"])
    page = run.report(tmp_path / "r.html", predictions={"what if": run.predict(do={"x": 1.0}, draws=50)})
    text = page.read_text(encoding="utf-8")
    assert "LOO-PIT" in text
    assert "Prediction: what if" in text


@pytest.mark.slow
def test_checks_are_live_as_soon_as_somebody_looks():
    """They came after a hundred seconds of the run."""

    def normal(y):
        numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal(0, 1)), 1), obs=y)

    going = gb.model(normal, RNG.normal(size=20)).start(draws=10**6, warmup=100, chains=2, thin=100)
    view = Dashboard(going)
    view.widget._control._receive(None, {"kind": "view", "view": "check"}, [])
    view.refresh()
    shown = view.widget._posterior  # a quick run has as many by now
    assert "50 draws" in shown["legend"] or "cards" in shown
    deadline = time.monotonic() + 60
    while "cards" not in view.widget._posterior and time.monotonic() < deadline:
        time.sleep(0.2)
        view.refresh()
    assert going.status == "sampling" and view.widget._posterior["cards"]
    first = view._panel.replicating
    assert first
    view.refresh()  # the next wait for their share of the time
    assert view._panel.replicating == first
    # of the processor's time: on a crowded machine a fiftieth of the clock's is a tenth of it
    late = replace(view.content, snapshot=replace(view.content.snapshot, elapsed=1e9))
    view._panel.refresh(late)
    assert view._panel.replicating == first
    going.stop()


def test_a_run_that_goes_on_meanwhile_is_asked_once(run, monkeypatch):
    """Draws come between two looks at them: what a live view asks for ended in an IndexError."""
    whole, steps = dict(run.draws), iter(range(10, 1000, 10))

    def growing(self):
        most = next(steps)
        return {n: v[:, :most] for n, v in whole.items()}

    monkeypatch.setattr(type(run), "draws", property(growing))
    found = predict(run, draws=1000)
    assert found.draws["y"].shape == (2, 10, N)


def test_a_usual_statistic_that_is_asked_for_is_shown_once(run):
    texts = [s.text for s in run.checks(draws=50, statistics=["mean(y)"], leave_one_out=False).statistics]
    assert texts[0] == "mean(y)" and len(texts) == len(set(texts))


def test_shares_are_plotted_along_a_column_of_a_binary_outcome():
    x, chance = np.linspace(-2, 2, 100), np.linspace(0.1, 0.9, 100)
    rng = np.random.default_rng(0)
    data, replicates = rng.random(100) < chance, rng.random((400, 100)) < chance
    found = Checks("m", "y", "binary", data.astype(float), replicates.astype(float), "", over=("x", x))
    plot = next(p for p in plots_of_checks(found) if p.name == "check along")
    dots, ribbons = plot.tables["data"], plot.tables["ribbons"]
    np.testing.assert_allclose(dots["y"], data.reshape(10, 10).mean(axis=1))
    np.testing.assert_allclose(dots["x"], x.reshape(10, 10).mean(axis=1))
    near = np.abs(ribbons["y"] - chance.reshape(10, 10).mean(axis=1))
    assert (near < 0.06).all() and plot.title == "mean of y over x"  # tenths


@pytest.mark.slow
def test_categories_without_order_are_counted_one_by_one():
    """There is no mean of bus, car and walk."""
    rng = np.random.default_rng(3)
    ways = pd.Categorical.from_codes(rng.integers(0, 3, 40), ["bus", "car", "walk"])
    trips = pd.DataFrame({"way": ways, "side": rng.choice(["e", "w"], 40), "far": rng.normal(size=40)})

    def choice(df):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([3]))
        with numpyro.plate("trip", len(df)):
            numpyro.sample("way", dist.Categorical(logits=b), obs=df.way)

    run = gb.model(choice, trips).sample(draws=300, warmup=100, chains=2, seed=0)
    found = run.checks(by="side", over="far")
    texts = [f"mean(way == {k!r})" for k in ("bus", "car", "walk")]
    assert [s.text for s in found.statistics] == texts
    shares = [s.seen for s in found.statistics]
    np.testing.assert_allclose(shares, np.bincount(ways.codes) / 40)
    assert "without order are not drawn along far" in found.note
    assert list(found.to_frame().index) == texts
    assert not {"by", "along"} & set(found.plots)
    east = found.of("e")
    of_car = next(s for s in east.statistics if s.text == texts[1])
    assert of_car.seen == pytest.approx(np.mean(ways[trips.side == "e"] == "car"))
    for k, label in enumerate(("bus", "car", "walk")):
        assert found.calibration(k).y.mean() == pytest.approx(shares[k])  # one chance for all
        assert f"way = {label}: share by its chance" in found.plot().svg


@pytest.mark.slow
def test_effects_on_vectors_are_those_of_each_component():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=12), rng.multinomial(10, [0.2, 0.3, 0.5], 12)
    beside = rng.normal(size=12)
    both = np.stack([x, -100 * x], -1)

    def shares(x, y, beside, both):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([3]))
        c = numpyro.sample("c", dist.Normal(0, 1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Multinomial(10, logits=b * x[:, None]), obs=y)
            numpyro.sample("z", dist.Normal(c, 1), obs=x)
        with numpyro.plate("of", len(x), dim=-2):  # columns that no plate is over
            numpyro.sample("w", dist.Normal(jnp.stack([c * x, -100 * c * x], -1), 1), obs=both)

    run = gb.model(shares, x, y, beside, both).sample(draws=40, warmup=100, chains=2, seed=0)
    c, b = run.draws["c"].astype(float), run.draws["b"].astype(float)
    one, none = (run.predict(do={"x": v}) for v in (1.0, 0.0))
    counts = 10 * np.exp(b) / np.exp(b).sum(-1, keepdims=True)
    for site, per_unit in (("w", np.stack([c, -100 * c], -1)), ("y", counts - 10 / 3)):
        found = run.effects("x", [0.0, 1.0], site=site)
        np.testing.assert_allclose(found.slope, per_unit, rtol=1e-4, atol=1e-4)
        names = [f"{site}[{k}]" for k in range(per_unit.shape[-1])]
        table = found.to_frame()
        assert list(table[site]) == 2 * names and list(table["x"][: len(names)]) == [0.0] * len(names)
        more = table["difference"][len(names) :]
        np.testing.assert_allclose(more, per_unit.mean((0, 1)), rtol=1e-4, atol=1e-4)
        assert len(found.to_frame(by="beside")) == 24 * len(names)
        pair = gb.contrast(one, none, site=site)
        average = pair.to_frame(average=True)
        np.testing.assert_allclose(average["mean"], per_unit.mean((0, 1)), rtol=1e-4, atol=1e-4)
        assert pair.risk_ratio.shape == per_unit.shape and f"{names[1]} " in repr(pair)
        groups = pair.to_frame(by=np.repeat([0, 1], 6))
        np.testing.assert_allclose(groups["mean"], np.tile(average["mean"], 2), rtol=1e-4, atol=1e-4)
        assert len(pair.to_frame()) == 12 * len(names)
        for picture in (pair.plot(), found.plot()):
            assert all(name in picture.svg for name in names)
    assert "z does not depend on beside" in repr(run.effects("beside", [0.0, 1.0], site="z"))
    with pytest.raises(OptionError, match="site= is one of y, z, w"):
        gb.contrast(one, none)


@pytest.mark.slow
def test_vectors_of_a_loop_are_averaged_over_its_statements():
    x = np.array([0.5, 1.0, 1.5])

    def model(x, y):
        c = numpyro.sample("c", dist.Normal(0, 1))
        for t in range(3):
            mu = jnp.stack([c * x[t], -100 * c * x[t]])
            numpyro.sample(f"y[{t}]", dist.Normal(mu, 1.0).to_event(1), obs=y[t])

    run = gb.model(model, x, np.zeros((3, 2))).sample(draws=40, warmup=100, chains=2, seed=0)
    c = run.draws["c"].astype(float)
    found = gb.contrast(run.predict(do={"x": 1.0}), run.predict(do={"x": 0.0}))
    wanted = [c.mean(), -100 * c.mean()]
    np.testing.assert_allclose(found.to_frame(average=True)["mean"], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_differences_of_directions_are_the_shorter_way_round():
    def model(x, y):
        a = numpyro.sample("a", dist.Normal(3.1, 0.01))
        numpyro.sample("y", dist.VonMises(a + 0.2 * x, 50.0), obs=y)

    run = gb.model(model, np.zeros(4), np.full(4, 3.1)).sample(draws=40, warmup=100, chains=2, seed=0)
    one, none = (run.predict(do={"x": v}) for v in (1.0, 0.0))
    found = gb.contrast(one, none)
    np.testing.assert_allclose(found.to_frame(average=True)["mean"], [0.2], atol=1e-3)
    for ask in (found.to_frame, lambda kind: run.effects("x"), lambda kind: one.to_frame(average=True)):
        with pytest.raises(OptionError, match="is a direction"):
            ask("ratio")


@pytest.mark.slow
def test_averages_of_the_shares_of_one_total_are_refused():
    def one(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([3]))
        numpyro.sample("y", dist.Multinomial(10, logits=b * x), obs=y)

    run = gb.model(one, 0.5, np.array([2, 3, 5])).sample(draws=40, warmup=100, chains=2, seed=0)
    with pytest.raises(OptionError, match=r"3 elements of 'y' sum to the same.*derive\('first = y\[0\]'\)"):
        run.effects("x", [0.0, 1.0])
    some = run.predict(do={"x": 1.0})
    some.derive("first = y[0]")
    found = gb.contrast(some, run.predict(do={"x": 0.0}))
    for ask in ({"average": True}, {"by": np.arange(3)}, {"kind": "risk ratio"}):
        with pytest.raises(OptionError, match=r"contrast: the 3 elements of 'y' sum to the same"):
            found.to_frame(**ask)
    with pytest.raises(OptionError, match="contrast: the 3 elements of 'y' sum to the same"):
        _ = found.risk_ratio
    assert "3 elements of a total" in repr(found) and len(found.to_frame()) == 3


@pytest.mark.slow
def test_what_no_replicate_can_miss_is_no_check():
    """Shares have a mean of one over their number: its p-value was that of rounding."""
    shares = np.random.default_rng(5).dirichlet([2.0, 3.0, 5.0], 20).astype(np.float32)

    def model(shares):
        a = numpyro.sample("a", dist.Gamma(2, 0.5).expand([3]).to_event(1))
        with numpyro.plate("row", len(shares)):
            numpyro.sample("y", dist.Dirichlet(a), obs=shares)

    run = gb.model(model, shares).sample(draws=40, warmup=100, chains=2, seed=0)
    assert {s.text for s in run.checks().statistics} == {"sd(y)", "min(y)", "max(y)"}


@pytest.mark.slow
def test_statistics_are_of_the_data_that_count():
    """Masked elements were among those of `statistics=`, and not among the usual ones."""
    y = np.r_[RNG.poisson(3.0, 30), np.full(10, 99)]

    def model(y, z):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        with numpyro.plate("row", len(y)):
            with numpyro.handlers.mask(mask=y < 99):
                numpyro.sample("y", dist.Poisson(rate), obs=y)
            numpyro.sample("z", dist.Poisson(rate), obs=z)

    run = gb.model(model, y, y % 7).sample(draws=100, warmup=50, chains=2)
    texts = ["mean(y == 99)", "big = mean(y > 3)", "mean(y > z)", "y[35]", "mean(z)"]
    table = run.checks("y", statistics=texts).to_frame()["seen"]
    there = y[:30]
    seen = [0, np.mean(there > 3), np.mean(there > there % 7), 99, np.mean(y % 7)]
    np.testing.assert_allclose([table[t] for t in texts], seen, rtol=1e-6)


@pytest.mark.slow
def test_statistics_of_categories_called_by_numbers_are_of_these():
    """Their codes were averaged under the name that expressions have for the numbers."""
    stars = pd.Categorical([10, 20, 40, 40] * 5, ordered=True)

    def model(t):
        numpyro.sample("y", dist.OrderedLogistic(numpyro.sample("b", dist.Normal(0, 1)), CUTS), obs=t.y)

    frame = pd.DataFrame({"y": stars, "half": [0] * 10 + [1] * 10})
    run = gb.model(model, frame).sample(draws=50, warmup=50, chains=2)
    for statistics in ((), ("mean(y)",)):
        table = run.checks(by="half", statistics=statistics).to_frame()["seen"]
        halves = [np.mean([*frame.y][:10]), np.mean([*frame.y][10:])]
        np.testing.assert_allclose([table["mean(y) of 0"], table["mean(y) of 1"]], halves)
        assert table["mean(y)"] == pytest.approx(27.5)
