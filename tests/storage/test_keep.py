"""Draws of some sites, and summaries of the others."""

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.errors import ModelError, OptionError, UnknownNameError

OPTIONS = {"draws": 60, "warmup": 40, "chains": 2, "seed": 1, "schedule": "Gibbs z (*) NUTS [w p]"}


def summarised(run, whole):
    assert set(run.draws) | set(run.summaries) == set(whole.draws)
    for name, v in run.draws.items():
        np.testing.assert_array_equal(v, whole.draws[name])
    for name, s in run.summaries.items():
        x = whole.draws[name].reshape(-1, *whole.draws[name].shape[2:]).astype(float)
        np.testing.assert_allclose(s.mean, x.mean(axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(s.sd, x.std(axis=0, ddof=1), rtol=1e-9, atol=1e-12)
        assert s.draws == 60


@pytest.mark.parametrize("keep", ["gap p", "p,gap", ["p", "gap"]])
def test_sites_that_are_not_kept_are_summarised(model, whole, keep):
    run = model.sample(**OPTIONS, keep=keep, chunk=7)
    assert list(run.draws) == ["p", "gap"]
    summarised(run, whole)
    assert {s.site for s in run.snapshot(limit=99).scalars} == {"p", "gap"}
    assert set(run.to_datatree()["posterior"].data_vars) == {"p", "gap"}
    assert run.memory.host == 60 * 2 * 3 * 4 < whole.memory.host
    with pytest.raises(UnknownNameError):
        run.trace("z[0]")
    with pytest.raises(ModelError, match="draws of every latent site, and w, z were not kept"):
        run.to_datatree(posterior_predictive=True)


def test_summaries_go_on_where_a_stored_run_does(model, whole, tmp_path):
    stop = lambda r: r.stop() if r.snapshot().draws_done >= 20 else None  # noqa: E731
    asked = dict(**OPTIONS, keep="p", store=tmp_path / "run", chunk=7)
    run = model.sample(**asked, on_start=lambda r: r.subscribe(stop))
    assert run.status == "stopped"
    back = gb.load(tmp_path / "run", model=model)
    assert back.summaries["z"].draws == run.draws["p"].shape[1]
    summarised(back.resume(), whole)
    summarised(gb.load(tmp_path / "run"), whole)


def test_what_cannot_be_kept(model):
    with pytest.raises(UnknownNameError, match="site to keep named 'q'"):
        model.start(**OPTIONS, keep="p q")
    with pytest.raises(OptionError, match="at least one site"):
        model.start(**OPTIONS, keep="")
