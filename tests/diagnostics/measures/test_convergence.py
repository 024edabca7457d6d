"""Measures against ArviZ, against chains whose ESS is known, and against draws that break them."""

from types import SimpleNamespace

import numpy as np
import pytest
from arviz_base import from_dict
from arviz_stats import bfmi as arviz_bfmi
from arviz_stats import ess, mcse, rhat
from gibbsite.diagnostics.measures.convergence import (
    MOST_RHAT,
    all_stats,
    bfmi,
    fair_share,
    scalar_stat,
    worst_first,
)
from gibbsite.diagnostics.measures.moments import Moments, SiteMoments
from gibbsite.diagnostics.measures.snapshot import Notice
from gibbsite.diagnostics.verdict.advice import sections
from gibbsite.diagnostics.verdict.notices import (
    disagreement,
    divergence_notice,
    missing_information,
    stuck_chains,
    told_by_labels,
)
from gibbsite.sampling.watch import monitor as monitoring
from gibbsite.sampling.watch.monitor import Monitor
from numpyro.distributions import constraints
from scipy.signal import lfilter

RNG = np.random.default_rng


def ar1(seed, phi, chains=4, draws=1000, shape=()):
    """Stationary chains x' = phi x + e of unit variance, `[chain, draw, *shape]`."""
    noise = RNG(seed).normal(size=(chains, draws, *shape)) * np.sqrt(1 - phi**2)
    noise[:, 0] /= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=1)


def funnel(seed):
    v = ar1(seed, 0.8) * 3
    return {"v": v, "x": np.exp(v / 2)[..., None] * ar1(seed + 1, 0.3, shape=(4,))}


def switched(seed):
    mu = np.array([-2.0, 2.0]) + 0.1 * ar1(seed, 0.2, shape=(2,))
    mu[2] = mu[2, :, ::-1]
    return {"mu": mu, "gap": mu[..., 1] - mu[..., 0]}


POSTERIORS = {
    "independent normals": lambda: {"x": RNG(0).normal(size=(4, 1000, 3))},
    "autocorrelated": lambda: {"x": ar1(1, 0.9, shape=(2, 2))},
    "antithetic": lambda: {"x": ar1(2, -0.7), "y": ar1(3, -0.99)},
    "heavy tails": lambda: {"x": RNG(4).standard_cauchy((4, 800)), "y": RNG(5).standard_t(3, (4, 800))},
    "funnel": lambda: funnel(6),
    "labels switched": lambda: switched(8),
    "chains far apart": lambda: {"x": ar1(9, 0.5) + 3 * np.arange(4.0)[:, None]},
    "whole numbers": lambda: {"n": RNG(10).poisson(3.0, (4, 999)), "z": RNG(11).integers(0, 2, (4, 999, 3))},
    "float32, odd counts": lambda: {"x": ar1(12, 0.6, chains=3, draws=501).astype(np.float32) + 100},
    "drifting": lambda: {"x": np.cumsum(RNG(13).normal(size=(2, 600)), axis=1) * 1e-3 + 1e3},
}


@pytest.mark.parametrize("name", POSTERIORS)
def test_final_measures_are_arviz_own(name):
    draws = POSTERIORS[name]()
    data = from_dict({"posterior": draws})["posterior"].to_dataset()
    found = {
        "rhat": rhat(data),
        "ess_bulk": ess(data, method="bulk"),
        "ess_tail": ess(data, method="tail"),
        "mcse": mcse(data),
        "mean": data.mean(("chain", "draw")),
        "sd": data.std(("chain", "draw"), ddof=1),
    }
    stats = all_stats(draws)
    assert len(stats) == sum(int(np.prod(v.shape[2:])) for v in draws.values())
    for s in stats:
        for measure, values in found.items():
            theirs = float(values[s.site].values[s.index])
            np.testing.assert_allclose(getattr(s, measure), theirs, rtol=1e-6, err_msg=f"{s.label} {measure}")
    order = [round(s.rhat, 2) for s in stats]
    assert order == sorted(order, reverse=True)


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.9, 0.97])
def test_chains_of_known_ess(phi):
    x = ar1(20, phi, draws=40_000)
    known = x.size * (1 - phi) / (1 + phi)
    assert scalar_stat("x", "x", (), x).ess_bulk == pytest.approx(known, rel=0.1)


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.9])
def test_streamed_ess_of_chains_of_known_ess(phi):
    x = ar1(21, phi, draws=20_000, shape=(200,))
    moments = SiteMoments((200,))
    for chunk in np.array_split(np.moveaxis(x, 1, 0), 37):
        moments.update(chunk)
    found = moments.rhat_and_ess()
    assert np.median(found[1]) == pytest.approx(80_000 * (1 - phi) / (1 + phi), rel=0.1)
    assert np.nanmax(found[0]) < 1.01


@pytest.mark.parametrize("cuts", [1, 7, 300])
def test_streamed_measures_do_not_depend_on_the_cut_and_are_those_of_all_draws(cuts):
    x = ar1(22, 0.6, draws=1024, shape=(3,)) + np.array([0.0, 1e3, 0.0]) + np.arange(4.0)[:, None, None]
    moments = SiteMoments((3,))
    for chunk in np.array_split(np.moveaxis(x, 1, 0), cuts):
        moments.update(chunk)
    halves = np.concatenate([x[:, :512], x[:, 512:]])
    within, between = halves.var(axis=1, ddof=1).mean(axis=0), halves.mean(axis=1).var(axis=0, ddof=1)
    np.testing.assert_allclose(moments.rhat_and_ess()[0], np.sqrt(511 / 512 + between / within), rtol=1e-9)


def test_the_worst_of_many_elements_are_found():
    x = RNG(23).normal(size=(1000, 4, 500))
    x[:, :, 123] = np.moveaxis(ar1(24, 0.98), 1, 0)
    x[:, 2, 321] += 1.0
    moments = SiteMoments((50, 10))
    moments.update(x)
    assert set(moments.worst(2)) == {123, 321}


def test_large_sites_are_followed_in_part_and_it_is_told():
    moments = Moments()
    moments.update({"z": np.zeros((3, 2, 50, 100), int), "w": np.zeros((3, 2, 5))})
    assert moments.partly == {"z": (2048, 5000)}


def test_memory_and_work_do_not_grow_with_the_run():
    moments = SiteMoments((4,))
    for _ in range(3000):
        moments.update(RNG(25).normal(size=(50, 2, 4)))
    assert len(moments._full) < 16


def test_of_a_long_run_moments_are_shown(monkeypatch):
    x, z = ar1(39, 0.5, draws=6000, shape=(30,)), RNG(40).integers(0, 2, (4, 6000))
    monitor = Monitor(plan(x=site((30,)), z=site(discrete=True)), 4)  # type: ignore[arg-type]
    draws = SimpleNamespace(
        sampled=SimpleNamespace(steps=6000, read=lambda: {"x": x, "z": z}),
        sampled_stats=SimpleNamespace(read=lambda: {}),
    )
    monitor.add({"x": np.moveaxis(x, 1, 0), "z": z.T}, {})
    monitor.measure(draws, ended=True)  # type: ignore[arg-type]
    exact = {s.label: s for s in monitor.scalars}
    monkeypatch.setattr(monitoring, "_ENDED_NUMBERS", 24_000 * 3)
    monitor.measure(draws, ended=True)  # type: ignore[arg-type]
    again = [s for s in monitor.scalars if np.isfinite(s.ess_tail)]
    assert len(again) == 3 and {s.site for s in again} == {"x", "z"}  # the worst are measured exactly
    assert all(s == exact[s.label] for s in again)
    monkeypatch.setattr(monitoring, "_ENDED_NUMBERS", 1000)
    monitor.measure(draws, ended=True)  # type: ignore[arg-type]
    shown = {s.label: s for s in monitor.scalars}
    assert shown.keys() == exact.keys() and len(shown) == 25
    for label, s in shown.items():
        e = exact[label]
        assert (s.site, s.index, s.discrete) == (e.site, e.index, e.discrete) and np.isnan(s.ess_tail)
        np.testing.assert_allclose([s.mean, s.sd], [e.mean, e.sd], rtol=1e-6, atol=1e-9)
        assert abs(s.rhat - e.rhat) < 0.01 and 0.4 < s.ess_bulk / e.ess_bulk < 2.5


BROKEN = {
    "constant": np.ones((4, 100)),
    "constant whole numbers": np.ones((4, 100), int),
    "constant after rounding": np.full((4, 100), 0.1, np.float32),
    "infinite": np.where(np.arange(400).reshape(4, 100) == 7, np.inf, 1.0 * np.arange(100)),
    "not a number": np.where(np.arange(400).reshape(4, 100) == 7, np.nan, 1.0 * np.arange(100)),
    "too few": RNG(26).normal(size=(4, 5)),
    "one draw": RNG(27).normal(size=(1, 1)),
    "none": np.zeros((4, 0)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_measures_that_are_not_defined(name):
    s = scalar_stat("x", "x", (), BROKEN[name])
    assert np.isnan([s.rhat, s.ess_bulk, s.ess_tail, s.mcse]).all()
    moments = SiteMoments(())
    if BROKEN[name].size:
        moments.update(np.moveaxis(BROKEN[name], 1, 0))
    assert np.isnan(moments.rhat_and_ess()).all()


def test_antithetic_chains_beat_independent_ones_within_bounds():
    s = scalar_stat("x", "x", (), ar1(28, -0.9, draws=2000))
    assert 8000 < s.ess_bulk <= 8000 * np.log10(8000)
    flipping = scalar_stat("z", "z", (), np.arange(2000) % 2 + np.zeros((4, 1), int))
    assert np.isfinite(flipping.ess_bulk) and flipping.discrete


def test_chains_that_never_move_and_disagree():
    """Nothing is worse: they are listed first, however R-hat's quotient by nothing comes out."""
    still = np.repeat(np.arange(4)[:, None], 500, axis=1)
    for x in (still, still // 2, still % 2):
        s, slow = scalar_stat("z", "z", (), x), scalar_stat("x", "x", (), ar1(28, 0.99, draws=500))
        assert s.rhat == MOST_RHAT > slow.rhat > 1.01 and s.ess_bulk < 10
        assert worst_first([slow, s]) == [s, slow]
        many = np.stack([ar1(29, 0.99, draws=500), x], axis=-1)
        moments = SiteMoments((2,))
        moments.update(np.moveaxis(many, 1, 0))
        assert moments.rhat_and_ess()[0][1] == MOST_RHAT and set(moments.worst(1)) == {1}


def test_bfmi():
    energy = np.stack([ar1(29, 0.0)[0], ar1(30, 0.97)[0]])
    data = from_dict({"posterior": {"x": energy}, "sample_stats": {"energy": energy}})
    np.testing.assert_allclose(bfmi(energy), arviz_bfmi(data)["energy"].values, rtol=1e-6)
    assert np.isnan(bfmi(np.ones((1, 100)))).all()


# notices


def test_what_is_followed_is_measured_and_listed_though_it_is_not_among_the_worst(monkeypatch):
    x = ar1(41, 0.5, draws=400, shape=(5000,))
    monitor = Monitor(plan(x=site((5000,))), 4)  # type: ignore[arg-type]
    steps = SimpleNamespace(steps=400, read=lambda: {"x": x})
    draws = SimpleNamespace(sampled=steps, sampled_stats=SimpleNamespace(read=lambda: {}))
    monitor.follow("x[7]", "x", (7,), draws)  # type: ignore[arg-type]
    assert monitor.followed == {}  # before the first draw there is nothing to follow
    monitor.add({"x": np.moveaxis(x, 1, 0)}, {})
    monitor.measure(draws, ended=True)  # type: ignore[arg-type]
    listed = [s.label for s in monitor.scalars]
    within, beyond = (
        next(k for k in range(5000) if (k in monitor.moments.sites["x"].elements) is known)
        for known in (True, False)
    )
    for k in (within, beyond):
        assert f"x[{k}]" not in listed
        monitor.follow(f"x[{k}]", "x", (k,), draws)  # type: ignore[arg-type]
    labels = {f"x[{within}]", f"x[{beyond}]"}
    for _ in range(2):  # at once, and at every measure from now on
        found = {s.label: s for s in monitor.scalars}
        for k in (within, beyond):
            assert found[f"x[{k}]"] == scalar_stat(f"x[{k}]", "x", (k,), x[:, :, k])
        assert labels <= {s.label for s in fair_share(monitor.scalars, 3, monitor.followed)}
        assert len(fair_share(monitor.scalars, 3, monitor.followed)) <= 5
        monitor.measure(draws, ended=True)  # type: ignore[arg-type]
    assert labels <= monitor.history().rhat.keys()
    monkeypatch.setattr(monitoring, "_RUNNING_NUMBERS", 1)
    monitor._next = 0.0
    monitor.measure(draws)  # type: ignore[arg-type]
    long = {s.label: s for s in monitor.scalars}
    assert np.isfinite(long[f"x[{within}]"].rhat) and np.isnan(long[f"x[{beyond}]"].rhat)
    for k in range(20):
        monitor.follow(f"x[{k}]", "x", (k,), draws)  # type: ignore[arg-type]
    assert list(monitor.followed) == [f"x[{k}]" for k in range(12, 20)]


def site(shape=(), discrete=False, role="latent", support=None):
    return SimpleNamespace(
        name="",
        shape=shape,
        discrete=discrete,
        role=role,
        support=support,
        dtype=np.dtype(np.float32),
        plates=(),
        plate_axes=(),
    )


def plan(blocks=1, **sites):
    block = SimpleNamespace(kernel="NUTS", label="*", sites=tuple(sites), eliminated=())
    facts = {"groups": {}, "labels": {}, "generated": (), "density": None}
    return SimpleNamespace(sites=sites, blocks=(block,) * blocks, eliminated=frozenset(), **facts)


def followed(values):
    monitor = Monitor(plan(), 4)  # type: ignore[arg-type]
    for chunk in np.array_split(np.arange(len(next(iter(values.values())))), 11):
        monitor.add({n: v[chunk] for n, v in values.items()}, {})
    return monitor.moments


def test_a_chain_that_has_not_moved():
    mu = RNG(31).normal(size=(900, 4, 3))
    mu[380:, 3, 1] = mu[379, 3, 1]
    tau = RNG(32).normal(size=(900, 4))
    facts = plan(mu=site((3,)), tau=site())
    stuck, notices = stuck_chains(facts, followed({"mu": mu, "tau": tau}))  # type: ignore[arg-type]
    assert stuck == {3: "mu[1]"}
    assert [n.text for n in notices] == ["chain 3 has not moved for 520 draws: mu[1]"]
    assert "another kernel" in notices[0].hint
    assert stuck_chains(facts, followed({"mu": mu[:870], "tau": tau[:870]}))[0] == {}  # type: ignore[arg-type]


def test_what_a_support_fixes_is_not_stuck():
    rows = np.zeros((600, 4, 2, 2))
    rows[..., 0, 0] = 1
    rows[..., 1, 0] = RNG(34).uniform(-1, 1, (600, 4))
    rows[..., 1, 1] = np.sqrt(1 - rows[..., 1, 0] ** 2)
    facts = plan(rows=site((2, 2), support=constraints.corr_cholesky))
    assert stuck_chains(facts, followed({"rows": rows})) == ({}, [])  # type: ignore[arg-type]
    rows[20:, 2, 1] = rows[20, 2, 1]
    stuck, _ = stuck_chains(facts, followed({"rows": rows}))  # type: ignore[arg-type]
    assert stuck == {2: "rows[1, 0]"}


def test_discrete_sites_may_rest_where_all_chains_agree():
    z = RNG(33).integers(0, 2, (600, 4, 20))
    z[:, :, 5] = 1
    facts = plan(z=site((20,), discrete=True))
    assert stuck_chains(facts, followed({"z": z})) == ({}, [])  # type: ignore[arg-type]
    z[:, 3, 5] = 0
    z[:, :, 12], z[:, 3, 12] = 0, 1
    stuck, notices = stuck_chains(facts, followed({"z": z}))  # type: ignore[arg-type]
    assert stuck == {3: "z[5]"}
    assert [n.text for n in notices] == ["chain 3 has not moved for 599 draws: z[5] and 1 more of 'z'"]
    # what rests because labels switched is told by that alone
    switched = [*notices, Notice("labels switched", "", "labels", ("mu",))]
    assert told_by_labels(facts, switched) == {"z"} and told_by_labels(facts, notices) == set()  # type: ignore[arg-type]
    z[:, 2, 5] = 0
    assert stuck_chains(facts, followed({"z": z}))[1][0].text == (  # type: ignore[arg-type]
        "chains 2 and 3 have not moved for 599 draws: z[5] and 1 more of 'z'"
    )
    # drawn anew at every step given the rest, it rests where that decides it
    facts.blocks[0].sites, facts.blocks[0].eliminated = ("z", "x"), ("z",)
    assert stuck_chains(facts, followed({"z": z})) == ({}, [])  # type: ignore[arg-type]


def test_divergences_and_low_energy_information():
    assert divergence_notice(0, 100) == []
    assert divergence_notice(5, 100)[0].text == "5 divergent transitions (5.0 % of draws)"
    energy = np.stack([ar1(34, 0.0)[0], ar1(35, 0.97)[0]])
    assert missing_information(plan(), {"0.energy": energy[:1]}) == []  # type: ignore[arg-type]
    found = missing_information(plan(), {"0.energy": energy})  # type: ignore[arg-type]
    assert "E-BFMI is below 0.3 in chain 1 (" in found[0].text
    assert missing_information(plan(blocks=2), {"0.energy": energy}) == []  # type: ignore[arg-type]


def test_label_switching_is_told_from_disagreement():
    draws = switched(36)
    found = disagreement(all_stats(draws), draws)
    assert [n.text for n in found] == ["labels switched: the components of mu differ in order between chains"]
    (order,) = disagreement(all_stats(draws), draws, "", lambda site: False)  # priors tell them apart
    assert order.topic == "orders" and order.text.endswith("orders are modes")
    apart = {"x": ar1(37, 0.5) + 3 * np.arange(4.0)[:, None]}
    assert [n.text for n in disagreement(all_stats(apart), apart)] == ["R-hat is above 1.01 for x"]
    fine = {"x": ar1(38, 0.1)}
    assert disagreement(all_stats(fine), fine) == []


def test_switched_directions_are_told_where_lengths_agree():
    flips, angles = np.array([1, -1, 1, -1])[:, None], np.array([0.0, 1.0, 2.5, 4.0])[:, None]
    one = {"f": flips * (ar1(40, 0.2) + 5), "g": flips * (ar1(41, 0.1) - 4)}
    found = disagreement(all_stats(one), one)
    assert [n.text for n in found] == [
        "directions switched: g, f have the same lengths in all chains, and other signs"
    ]
    assert found[0].topic in sections()
    turned = np.stack([np.cos(angles), np.sin(angles)], -1)[:, :, None] * (ar1(42, 0.1) + 6)[..., None, None]
    rows = {"W": np.broadcast_to(turned, (*turned.shape[:2], 3, 2)) + 0.1 * ar1(43, 0.0)[..., None, None]}
    assert [n.topic for n in disagreement(all_stats(rows), rows)] == ["signs"]
    # another site that disagrees, lengths that do, and numbers around zero that are only slow
    level = {**one, "m": ar1(44, 0.1) + 9 * np.arange(4.0)[:, None]}
    assert [n.topic for n in disagreement(all_stats(level), level)] == ["rhat"]
    slow = {"x": ar1(45, 0.995)}
    assert [n.topic for n in disagreement(all_stats(slow), slow)] == ["rhat"]


def test_a_large_site_does_not_crowd_out_the_others():
    stats = [scalar_stat("z", "z", (i,), np.zeros((2, 9))) for i in range(30)]
    stats += [scalar_stat("w", "w", (i,), np.zeros((2, 9))) for i in range(3)]
    shown = fair_share(stats, 10)
    assert [s.site for s in shown] == ["z"] * 7 + ["w"] * 3
    assert [s.index for s in shown[:7]] == [(i,) for i in range(7)]
