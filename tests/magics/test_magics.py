"""The magics through a real IPython shell: what they bind, what they show, what they say of mistakes."""

import contextlib
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gibbsite
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite import errors
from gibbsite.programs.jaxpr import kept
from gibbsite.sampling.engine.resources import Estimate, expected_seconds
from gibbsite_magics import show as show_module
from gibbsite_magics.magics import without_comment
from gibbsite_magics.show import foretell
from helpers.executors import Here
from IPython.core.completer import provisionalcompleter
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

Run = Callable[[str], str]
Fail = Callable[[str], tuple[Any, str]]

MIXTURE = """%%model mixture(x, K=2)
w  ~ Dirichlet(ones(K))
mu ~ Normal(0, 5).expand([K])
with plate("n", len(x)):
    z ~ Categorical(w)
    x ~ Normal(mu[z], 1.0)
"""
SHORT = "-n 20 -w 20 -c 2"


@pytest.fixture
def mixture(shell: InteractiveShell, run: Run) -> Any:
    shell.user_ns["x"] = np.array([-2.0, -2.1, 1.9, 2.2], np.float32)
    run(MIXTURE)
    return shell.user_ns["mixture"]


def test_model_binds_and_shows_its_graph(shell: InteractiveShell, run: Run):
    shell.user_ns["x"] = np.zeros(4, np.float32)
    printed = run(MIXTURE)
    model = shell.user_ns["mixture"]
    assert isinstance(model, gibbsite.Model)
    assert str(model.graph) in printed
    assert {n: s.role for n, s in model.sites.items()} == {
        "w": "latent",
        "mu": "latent",
        "z": "latent",
        "x": "observed",
    }


def test_source_pasted_in_a_cell_runs_the_same(shell: InteractiveShell, run: Run, mixture: Any):
    run(mixture.source)
    pasted = gibbsite.model(shell.user_ns["mixture"], shell.user_ns["x"], K=2)
    state = {"w": np.array([0.3, 0.7]), "mu": np.array([-2.0, 2.0]), "z": np.array([0, 1, 1, 0])}
    assert pasted.density.log_joint(state) == mixture.density.log_joint(state)


@pytest.mark.slow
def test_a_run_on_workers(shell: InteractiveShell, run: Run, fail: Fail, mixture: Any):
    shell.user_ns["pool"] = pool = Here()
    run(f"r = %sample mixture {SHORT} -q --on pool")
    assert pool.calls > 2 and shell.user_ns["r"].status == "finished"
    for line in ("%sample mixture -q --on x", "%check mixture --on x"):
        assert "has no submit(fn, …)" in fail(line)[1]


def test_comments_behind_a_magic(shell: InteractiveShell, run: Run):
    """As behind any line of Python; a `#` within a word or quotes is none."""
    shell.user_ns["x"] = np.zeros(4, np.float32)
    run("%%model m(x)  # it's all there\nmu ~ Normal(0, 1)\nx ~ Normal(mu, 1)")
    run("r = %sample m -n 20 -w 20 -c 2 -q  # don't wait long")
    assert shell.user_ns["r"].settings.draws == 20
    assert "NUTS" in run("%schedule m 'NUTS mu'  # by hand") and "mu" in run("%graph m # all")
    assert without_comment("m --store runs#1 --note 'a # b' # c") == "m --store runs#1 --note 'a # b'"
    assert without_comment("# all") == ""


def test_function_form(shell: InteractiveShell, run: Run):
    run("import numpyro, numpyro.distributions as dist\nx = 1.5")
    run(
        "%%model m(scale=2.0)\ndef m(x, scale):\n    a = numpyro.sample('a', dist.Normal(0, scale))\n"
        "    numpyro.sample('x', dist.Normal(a, 1), obs=x)"
    )
    model = shell.user_ns["m"]
    assert (model.name, model.kwargs) == ("m", {"scale": 2.0, "x": 1.5})
    assert model.source.startswith("def m(x, scale):")


def test_running_again_binds_again_and_a_failing_cell_leaves_the_binding(
    shell: InteractiveShell, run: Run, fail: Fail, mixture: Any
):
    run(MIXTURE.replace("K=2", "K=3"))
    again = shell.user_ns["mixture"]
    assert again is not mixture
    assert again.sites["mu"].shape == (3,)
    for broken in ("w ~ Dirichlet(ones(K)", "w ~ Dirichlet(ones(K)) / 0", "raise ValueError('no')"):
        fail(f"%%model mixture(x, K=3)\n{broken}")
        assert shell.user_ns["mixture"] is again
    fail("%%model mixture(x)\ndef mixture(x):\n    raise ValueError('no')")
    assert shell.user_ns["mixture"] is again


def test_sample_returns_a_run(shell: InteractiveShell, run: Run, mixture: Any):
    printed = run(f"run = %sample mixture {SHORT} --seed 3")
    result = shell.user_ns["run"]
    assert result.draws["mu"].shape == (2, 20, 2)
    assert result.status == "finished"
    assert "finished" in printed
    same = mixture.sample(draws=20, warmup=20, chains=2, seed=3)
    np.testing.assert_array_equal(result.draws["z"], same.draws["z"])


@pytest.mark.slow
def test_long_flags_variables_and_configured_defaults(shell: InteractiveShell, run: Run, mixture: Any):
    shell.user_ns["n"] = 15
    run("b = %sample mixture -n 2e1 -w 5 -c 2 -q")
    assert shell.user_ns["b"].draws["mu"].shape[:2] == (2, 20)
    run("%config Gibbsite.warmup = 10\n%config Gibbsite.chains = 3\na = %sample mixture --draws $n --quiet")
    assert shell.user_ns["a"].draws["mu"].shape[:2] == (3, 15)


@pytest.mark.slow
def test_a_run_is_streamed_to_a_folder(shell: InteractiveShell, run: Run, mixture: Any, tmp_path: Path):
    run(f"a = %sample mixture {SHORT} -q --store '{tmp_path / 'a run'}' --keep-warmup --thin 2")
    back = gibbsite.load(tmp_path / "a run", model=mixture)
    np.testing.assert_array_equal(back.draws["z"], shell.user_ns["a"].draws["z"])
    assert back.to_datatree()["warmup_posterior"].sizes["draw"] == 20
    assert back.settings.thin == 2
    asked = f"--store '{tmp_path / 'a run'}' --resume auto --keep-warmup --thin 2"
    run(f"b = %sample mixture {SHORT} -q {asked}\nc = %sample mixture {SHORT} -n 25 -q {asked}")
    np.testing.assert_array_equal(shell.user_ns["b"].draws["z"], back.draws["z"])
    assert shell.user_ns["c"].draws["z"].shape[1] == 25


def test_compiled_programs_outlive_the_kernel_where_one_says(run: Run, tmp_path: Path):
    before = jax.config.jax_compilation_cache_dir
    try:
        run(f"%config Gibbsite.compile_cache = {str(tmp_path)!r}")
        assert kept.chosen().folder == tmp_path
        run("%config Gibbsite.compile_cache = 'off'")
        assert kept.chosen() is None
        assert jax.config.jax_compilation_cache_dir == before
    finally:
        run("%config Gibbsite.compile_cache = 'auto'")


@pytest.mark.parametrize("flag", ["--draws -5", "-n 0", "-c 0", "-w -1", "--device nowhere"])
def test_senseless_numbers_are_refused_and_the_earlier_run_stays(
    shell: InteractiveShell, run: Run, fail: Fail, mixture: Any, flag: str
):
    run(f"run = %sample mixture {SHORT} -q")
    earlier = shell.user_ns["run"]
    error, _ = fail(f"run = %sample mixture {flag}")
    assert isinstance(error, errors.OptionError)
    assert shell.user_ns["run"] is earlier


def test_stages_are_shown(run: Run, mixture: Any):
    assert str(mixture.graph) in run("%graph mixture")
    assert str(mixture.conditional("z")) in run("%conditional mixture z")
    everything = run("%conditional mixture")
    assert all(str(mixture.conditional(site)) in everything for site in ("w", "mu", "z"))
    assert "summed out" not in everything
    assert str(mixture.schedule()) in run("%schedule mixture")


@pytest.mark.slow
def test_the_tape_is_shown_to_a_depth(run: Run, mixture: Any):
    printed = run("%trace mixture")
    assert printed.rstrip("\n") == str(mixture.tape)
    assert "mu ~ " in printed
    assert run("%trace mixture --depth 2").rstrip("\n") == mixture.tape.to_text(2)


def test_help(shell: InteractiveShell):
    assert "name ~ distribution" in shell.find_cell_magic("model").__doc__
    text = shell.find_line_magic("sample").__doc__
    flags = "--draws -n --warmup -w --chains -c --seed -s --schedule --device"
    assert all(flag in text for flag in flags.split())


def test_help_names_the_numbers(run: Run):
    assert re.search(
        r"draws to keep per chain \(1000; another:\s+%config\s+Gibbsite.draws = …\)", run("%sample?")
    )


def test_run_before_there_is_one(shell: InteractiveShell, run: Run, fail: Fail, mixture: Any, tmp_path: Path):
    """IPython takes the name for `%run`, which goes on working."""
    for line, told in (
        ("run", "needs a file"),
        ("run nothing", "no file 'nothing'"),
        ("%run", "needs a file"),
    ):
        _, seen = fail(line)
        assert told in seen and "`run = %sample mixture`" in seen and "Traceback" not in seen
    script = tmp_path / "script.py"
    script.write_text("found = 3")
    run(f"%run {script}")
    assert shell.user_ns["found"] == 3


def test_a_column_is_observed_by_its_name(shell: InteractiveShell, run: Run):
    shell.user_ns["df"] = pd.DataFrame({"y": [0.5, np.nan, 1.0], "g": list("aba")})
    for column in ("df.y", 'df["y"]'):
        cell = f"%%model m(df) --missing impute\na ~ Normal(0, 1).expand([2])\n{column} ~ Normal(a[df.g], 1)"
        run(f"{cell}\nv = deterministic('v', df.y)")
        model = shell.user_ns["m"]
        assert {n: s.role for n, s in model.sites.items() if n != "a"} == {
            "y_missing": "latent", "y": "observed", "v": "deterministic",
        }  # fmt: skip
        assert f'df = df | {{"y": numpyro.sample("y", Normal(a[df.g], 1), obs={column})}}' in model.source
    shell.user_ns["data"] = {"y": np.zeros(3)}
    run("%%model m(data)\na ~ Normal(0, 1)\ndata['y'] ~ Normal(a, 1)")
    assert shell.user_ns["m"].sites["y"].role == "observed"
    result = shell.run_cell("%%model m\na ~ Normal(0, 1)\ndf.y ~ Normal(a, 1)")
    assert "no argument of the model" in str(result.error_in_exec)


def test_unknown_names_suggest_the_nearest(fail: Fail, mixture: Any):
    error, seen = fail("%sample mixtrue")
    assert isinstance(error, errors.UnknownNameError)
    assert "did you mean 'mixture'?" in seen
    assert "Traceback" not in seen
    _, seen = fail("%conditional mixture zz")
    assert "no site named 'zz'" in seen
    assert "did you mean 'z'?" in seen


def test_a_plain_function_is_not_a_model(run: Run, fail: Fail):
    run("def f(): ...")
    error, _ = fail("%graph f")
    assert isinstance(error, UsageError)
    assert "gibbsite.model(f, …)" in str(error)


def test_a_missing_argument_says_so(fail: Fail):
    error, seen = fail("%%model m(data)\na ~ Normal(0, 1)\ndata ~ Normal(a, 1)")
    assert isinstance(error, errors.ArgumentError)
    assert "no variable 'data'" in seen


def test_syntax_error_shows_the_users_line_with_a_caret(fail: Fail):
    error, seen = fail("%%model m\na ~ Normal(0, 1)\nb ~ Normal(a b)\n")
    assert isinstance(error, errors.GrammarError)
    lines = seen.splitlines()
    at = lines.index("    b ~ Normal(a b)")
    assert "line 3" in lines[at - 1]
    assert lines[at + 1].index("^") == lines[at].index("a b")


def test_a_model_that_raises_shows_the_users_own_line(fail: Fail):
    error, seen = fail("%%model m\na ~ Normal(0, 1)\nb = [1, 2][5]\n")
    assert isinstance(error, IndexError)
    assert "----> 3 b = [1, 2][5]" in seen
    assert "/gibbsite/" not in seen


def test_a_model_without_latent_sites(shell: InteractiveShell, fail: Fail):
    shell.user_ns["x"] = 1.0
    error, _ = fail("%%model m(x)\nx ~ Normal(0, 1)")
    assert isinstance(error, errors.ModelError)
    assert "no latent" in str(error)


def test_nan_in_the_data(shell: InteractiveShell, fail: Fail):
    shell.user_ns["x"] = np.array([0.0, np.nan])
    error, _ = fail("%%model m(x)\na ~ Normal(0, 1)\nx ~ Normal(a, 1)")
    assert isinstance(error, errors.DataError)
    assert "'x'" in str(error)


@pytest.mark.slow
def test_a_discrete_site_without_finite_support(shell: InteractiveShell, run: Run):
    shell.user_ns["y"] = np.float32(3.0)
    run("%%model m(y)\nk ~ Poisson(3.0)\ny ~ Normal(k, 1)\n")
    printed = run("%conditional m k")
    assert "infinite support" in printed
    assert "truncate" in printed
    run(f"run = %sample m {SHORT} -q")  # by a kernel that needs no table
    assert shell.user_ns["run"].draws["k"].shape == (2, 20)


@pytest.mark.parametrize("presses", [1, 2])
def test_interrupts_stop_the_run_and_keep_its_draws(
    shell: InteractiveShell, run: Run, mixture: Any, monkeypatch: pytest.MonkeyPatch, presses: int
):
    main = threading.main_thread().ident
    assert main is not None
    sample = mixture.sample
    sent, all_sent = threading.Event(), threading.Event()

    def sample_and_interrupt(on_start: Any, **options: Any) -> Any:
        def interrupt(current: Any) -> None:
            if current.snapshot().draws_done > 0 and not sent.is_set():
                sent.set()
                for _ in range(presses):
                    signal.pthread_kill(main, signal.SIGINT)
                all_sent.set()

        def begin(current: Any) -> None:
            on_start(current)
            current.subscribe(interrupt)

        return sample(on_start=begin, **options)

    monkeypatch.setattr(mixture, "sample", sample_and_interrupt)
    shell.user_ns["run"] = None
    with contextlib.suppress(KeyboardInterrupt):  # on a busy machine the second comes when the cell has ended
        run("run = %sample mixture -n 10000000 -w 10 -c 1 -q")
        assert all_sent.wait(60)
    result = shell.user_ns["run"]
    assert result.status == "stopped"
    assert 0 < result.draws["mu"].shape[1] < 10000000


def completions(shell: InteractiveShell, line: str) -> list[str]:
    with provisionalcompleter():
        return [c.text for c in shell.Completer.completions(line, len(line))]


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("run = %sample mi", ["mixture"]),
        ("%sample mixture --dr", ["--draws"]),
        ("%sample mixture -", ["--draws", "-n", "--schedule"]),
        ("%sample mixture --", ["--store", "--keep-warmup", "--thin"]),
        ("%sample mixture --device c", ["cpu"]),
        ("%sample mixture --until ", ["'ess>400, rhat<1.01'"]),
        ("%graph ", ["mixture"]),
        ("%sche", ["%schedule"]),
    ],
)
def test_completion(shell: InteractiveShell, mixture: Any, line: str, some: list[str]):
    assert set(some) <= set(completions(shell, line))


def test_completion_of_sites_leaves_out_what_is_observed(shell: InteractiveShell, mixture: Any):
    assert sorted(completions(shell, "%conditional mixture ")) == ["mu", "w", "z"]


def test_loading_again_is_harmless(shell: InteractiveShell, mixture: Any):
    shell.run_line_magic("reload_ext", "gibbsite")
    assert completions(shell, "%graph mi") == ["mixture"]


def test_data_that_the_parentheses_forgot(shell: InteractiveShell, run: Run):
    shell.user_ns["y"] = np.zeros(5, np.float32)
    with pytest.warns(UserWarning, match=r"observes nothing.*'y'.*%%model m\(n_obs, y\)"):
        run("%%model m(n_obs=5)\nmu ~ Normal(0, 1)\nwith plate('n', n_obs):\n    y ~ Normal(mu, 1)\n")


@pytest.mark.parametrize(
    ("given", "body", "says"),
    [
        ("", "y ~ Normal(mu, 1)", r"the notebook has values for 'y', of the shape \(5,\).*`%%model m\(y\)`"),
        (
            "u",
            "with plate('k', 3):\n    u ~ Normal(mu, 1)\nwith plate('n', 5):\n    y ~ Normal(mu, 1)",
            r"m draws 'y', which nothing reads.*'y', of the shape \(5,\).*`%%model m\(u, y\)`",
        ),
    ],
)
def test_data_that_the_statement_misses(shell: InteractiveShell, run: Run, given: str, body: str, says: str):
    shell.user_ns |= {"y": np.zeros(5), "u": np.zeros(3)}
    shell.user_ns["df"] = pd.DataFrame({"z": np.zeros(5), "x": np.ones(5)})
    shell.user_ns["mu"] = np.zeros(5)  # left from elsewhere; a site that others are computed from is no data
    with pytest.warns(UserWarning, match=says) as told:
        run(f"%%model m({given})\nmu ~ Normal(0, 1)\n{body}\n")
    assert len(told) == 1


@pytest.mark.parametrize(
    ("given", "body", "says"),
    [
        ("df", "z ~ Normal(mu * df.x, 1)", r"'df' has a column 'z'.*`df.z ~ …`"),
        ("y", "Y ~ Normal(mu, 1)", r"reads its argument 'y'.* did you mean 'y' where 'Y' is sampled\?"),
    ],
)
def test_data_that_nothing_reads(shell: InteractiveShell, run: Run, given: str, body: str, says: str):
    shell.user_ns |= {"y": np.zeros(5), "u": np.zeros(3)}
    shell.user_ns["df"] = pd.DataFrame({"z": np.zeros(5), "x": np.ones(5)})
    with pytest.raises(errors.DataError, match=says):
        run(f"%%model m({given})\nmu ~ Normal(0, 1)\n{body}\n")


def test_data_that_changed_since_the_cell(shell: InteractiveShell, run: Run):
    shell.user_ns["y"] = np.zeros(5, np.float32)
    run("%%model m(y)\nmu ~ Normal(0, 1)\nwith plate('n', len(y)):\n    y ~ Normal(mu, 1)\n")
    sample = "%sample m -n 5 -w 5 -c 1 -q"
    run(sample)  # nothing has changed, and warnings are errors here
    shell.user_ns["y"] = shell.user_ns["y"].copy()
    run(sample)
    shell.user_ns["y"][2] = 3.0
    with pytest.warns(UserWarning, match="y has changed since the cell of m ran"):
        run(sample)


def test_what_a_cell_reads_that_changed_since(shell: InteractiveShell, run: Run):
    """A constant, a function, a dict and an array that are no arguments: the run uses them as they were."""
    run("k, cfg, x = 2.0, {'s': 1.0}, __import__('numpy').arange(3.0)\ndef link(v):\n    return v * k")
    run("%%model m\na ~ Normal(0, 1)\nnumpyro.factor('f', Normal(link(a), cfg['s']).log_prob(x).sum())\n")
    sample = "%sample m -n 5 -w 5 -c 1 -q"
    run(sample)
    run("\n\ndef link(v):\n    return v * k\nx = x.copy()")
    run(sample)  # the same function, elsewhere
    for name, change in (
        ("k", "k = 3.0"),
        ("link", "def link(v):\n    return v + k"),
        ("cfg", "cfg['s'] = 2.0"),
        ("x", "x[0] = 5.0"),
    ):
        run(f"kept = k, link, cfg.copy(), x.copy()\n{change}")
        with pytest.warns(UserWarning, match=f"{name} has changed since the cell of m ran"):
            run(sample)
        run("k, link, cfg, x = kept")


@pytest.mark.parametrize("kind", ["tilde", "function"])
def test_arguments_that_nothing_reads(shell: InteractiveShell, run: Run, kind: str):
    shell.user_ns["y"] = shell.user_ns["x"] = np.zeros(5, np.float32)
    tilde = "mu ~ Normal(0, 1)\nwith plate('n', len(y)):\n    y ~ Normal(mu, 1)\n"
    function = (
        "def m(x, y, offset=0.0):\n    mu = numpyro.sample('mu', dist.Normal(0.0, 1.0))\n"
        "    numpyro.sample('y', dist.Normal(mu, 1.0).expand([5]), obs=y)\n"
    )
    if kind == "function":
        run("import numpyro\nimport numpyro.distributions as dist")
    with pytest.warns(UserWarning) as told:
        run("%%model m(x, y, offset=1.0)\n" + (tilde if kind == "tilde" else function))
    said = " ".join(str(w.message) for w in told)
    assert "nothing in m reads its argument 'x'" in said and "argument 'offset'" in said and "'y'" not in said


def test_a_note_on_columns_far_from_zero_has_the_line_to_write(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
):
    shell.run_cell("import numpy as np; year, y = np.arange(2000., 2020.), np.arange(20.)")
    shell.run_line_magic("config", "Gibbsite.show_graph = False")
    cell = (
        "%%model line(year, y)\na ~ Normal(0, 100)\nb ~ Normal(0, 1)\ny ~ Normal(a + b * year, 1).to_event(1)"
    )
    shell.run_cell(cell).raise_error()
    (note,) = [n for n in capsys.readouterr().err.splitlines() if n.startswith("note: 'year'")]
    written = note.split("`")[1]
    assert written == 'line = line.centred("year")'
    shell.run_cell(written).raise_error()
    assert not shell.user_ns["line"].notes and "year - 2009.5" in shell.user_ns["line"].source


def test_a_long_run_says_what_it_takes_before_it_begins(capsys):
    settings = SimpleNamespace(draws=10**8, chains=4)
    foretell(SimpleNamespace(settings=settings, memory=Estimate(2**34, 2**20, 7200.0)))
    told = capsys.readouterr().out
    assert "100 000 000 draws × 4 chains: 16.0 GiB" in told and "40 minutes to 6 hours" in told
    foretell(SimpleNamespace(settings=settings, memory=Estimate(2**20, 2**20, 1.0)))
    foretell(SimpleNamespace(settings=settings, memory=Estimate(2**20, 2**20)))
    assert not capsys.readouterr().out
    plan = gibbsite.model(coin, np.ones(5)).plan()
    few, many = (expected_seconds(plan, 4, n) for n in (100, 10**8))
    assert few is not None and many == pytest.approx(few * 10**6) and 1e-6 < few < 0.1


def coin(y):
    p = numpyro.sample("p", dist.Beta(1, 1))
    numpyro.sample("y", dist.Bernoulli(p), obs=y)


def test_the_first_wait_has_a_word(monkeypatch):
    """Where somebody is at the page and JAX is not loaded yet; what it took stands there in the end."""
    said = []

    class Handle:
        def update(self, line):
            said.append(str(line))

    monkeypatch.setattr(show_module, "display", lambda line, display_id: said.append(str(line)) or Handle())
    clock = iter([0.0, 3.0, 5.5, 9.0])
    monkeypatch.setattr(show_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.delitem(sys.modules, "jax")
    wait = show_module.FirstWait(SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=True)))
    wait.loaded()
    wait.analysed()
    assert said[0].startswith("loading JAX") and "loaded in 3.0 s" in said[-1] and "in 2.5 s" in said[-1]
    show_module.FirstWait(SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=False)))
    assert len(said) == 3


def test_a_cell_whose_structure_changes(shell: InteractiveShell, run: Run):
    """It ended in an error after the note, and so did everything below it."""
    shell.user_ns.update(y=np.array([1.5, 1.8]), t=pd.DataFrame({"y": [1.5, 1.8]}), mu=np.ones(2))
    for given, observed, length in (("y", "y", "len(y)"), ("t", "t.y", "len(t)")):
        printed = run(
            f"%%model gated({given})\nz ~ Bernoulli(0.3)\nif z:\n    mu ~ Normal(1, 1)\nelse:\n    mu = 0.0\n"
            f"with plate('n', {length}):\n    {observed} ~ Normal(mu, 1.0)"
        )
        assert "mu ~ Normal(1, 1)   ← ⟨1⟩" in printed
    assert "Structure z > NUTS *" in str(shell.user_ns["gated"].schedule("Structure z > NUTS *"))


def test_calls_of_python_end_in_one_sentence_too(shell: InteractiveShell, run: Run, fail: Fail, mixture: Any):
    """They showed some fifty lines of our frames; the whole traceback is a `%tb` away."""
    shell.user_ns["r"] = mixture.sample(draws=5, warmup=5, chains=1, seed=0)
    for call, says in {
        "r.derive('q = nope + 1')": "No site is called 'nope'",
        "def ask(r):\n    return r.plot('nope')\nask(r)": "No parameter named 'nope'",
        "r.extend(500)": "run.resume(500) makes 500 draws more",
        "mixture.eliminate('nope')": "No site named 'nope'",
    }.items():
        _, text = fail(call)
        assert says.lower() in text.lower() and "%tb" in text and "gibbsite/" not in text
        assert len(text.splitlines()) < 10
    assert "gibbsite/" in run("%tb")
    assert "1/0" in fail("1/0")[1] and "%tb" not in fail("1/0")[1]  # what is not ours stays as it is
    _, text = fail("%predict r --data nowhere")
    assert "there is no 'nowhere' in the notebook" in text
