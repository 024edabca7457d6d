"""From the text of a cell to a function and its arguments."""

from typing import Any

import numpy as np
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ArgumentError
from gibbsite_magics.cell import Definition, define
from gibbsite_magics.signature import parse_signature
from numpyro import handlers

MIXTURE = """\
w  ~ Dirichlet(ones(K))
mu ~ Normal(0, 5).expand([K])
with plate("n", len(x)):
    z ~ Categorical(w)
    x ~ Normal(mu[z], 1.0)
"""
CHAIN = '''\
"""A chain with a note."""
note = """
   kept as it is ~
"""
for t in range(T):
    s[t] ~ Normal(s[t - 1] if t else 0.0, 1.0)
    y[t] ~ Normal(s[t], 0.1)  # data, or None
total = deterministic("total", sum(s[t] + y[t] for t in range(T)))
'''


def sites(fn: Any, *args: Any, **kwargs: Any) -> dict[str, dict]:
    trace = handlers.trace(handlers.seed(fn, 0)).get_trace(*args, **kwargs)
    return {name: site for name, site in trace.items() if site["type"] in ("sample", "deterministic")}


def same_when_pasted(found: Definition, namespace: dict[str, Any]) -> bool:
    pasted = dict(namespace)
    exec(found.source, pasted)
    ours = sites(found.fn, *found.args, **found.kwargs)
    theirs = sites(pasted[found.name], *found.args, **found.kwargs)
    assert list(ours) == list(theirs)
    return all(
        np.array_equal(ours[n]["value"], theirs[n]["value"])
        and ours[n].get("is_observed") == theirs[n].get("is_observed")
        for n in ours
    )


def test_tilde_form_binds_arguments_from_the_line_and_the_notebook():
    namespace = {"x": np.arange(4.0)}
    found = define("mixture(x, K=3)", MIXTURE, namespace, "<cell>")
    assert (found.name, found.kwargs["K"]) == ("mixture", 3)
    assert found.kwargs["x"] is namespace["x"]
    assert {n: s["is_observed"] for n, s in sites(found.fn, **found.kwargs).items()} == {
        "w": False,
        "mu": False,
        "z": False,
        "x": True,
    }
    assert set(namespace) - {"__builtins__"} == {"x"}
    assert same_when_pasted(found, namespace)


def test_none_makes_an_argument_latent():
    found = define("m(x=None)", "x ~ Normal(0, 1)", {}, "<cell>")
    assert not sites(found.fn, **found.kwargs)["x"]["is_observed"]
    observed = sites(found.fn, x=np.float32(2.0))["x"]
    assert observed["is_observed"]


@pytest.mark.parametrize("y", [None, np.array([1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]])
def test_indexed_sites(y: Any):
    namespace = {"y": y}
    found = define("chain(y, T=3)", CHAIN, namespace, "<cell>")
    assert found.fn.__doc__ == "A chain with a note."
    assert "\n   kept as it is ~\n" in found.source
    trace = sites(found.fn, **found.kwargs)
    assert [n for n in trace if n.startswith("s")] == ["s[0]", "s[1]", "s[2]"]
    for t in range(3):
        site = trace[f"y[{t}]"]
        assert site["is_observed"] == (y is not None)
        assert y is None or site["value"] == y[t]
    parts = [trace[f"{n}[{t}]"]["value"] for n in "sy" for t in range(3)]
    assert np.isclose(trace["total"]["value"], sum(parts))
    assert same_when_pasted(found, namespace)


def test_the_notebooks_own_names_win_and_stay_live():
    class Normal(dist.Exponential):
        pass

    namespace: dict[str, Any] = {"Normal": Normal, "rate": lambda: 1.0}
    found = define("m", "a ~ Normal(rate())", namespace, "<cell>")
    assert isinstance(sites(found.fn)["a"]["fn"], Normal)
    namespace["rate"] = lambda: 2.0
    assert sites(found.fn)["a"]["fn"].rate == 2.0


def test_factor_and_deterministic_are_there():
    found = define("m", "a ~ Normal(0, 1)\nb = deterministic('b', 2 * a)\nfactor('f', -b)", {}, "<cell>")
    assert {"a", "b", "f"} <= set(sites(found.fn))


def test_function_form_runs_as_a_cell_and_leaves_the_name_alone():
    body = "import numpyro\nimport numpyro.distributions as dist\n\ndef helper(K):\n    return 2 * K\n\n"
    body += "def m(x, K, *, scale=1.0):\n    numpyro.sample('x', dist.Normal(helper(K), scale), obs=x)\n"
    namespace: dict[str, Any] = {"x": 1.0, "m": "earlier"}
    found = define("m(K=3)", body, namespace, "<cell>")
    assert found.kwargs == {"x": 1.0, "K": 3, "scale": 1.0}
    assert namespace["m"] == "earlier"
    assert callable(namespace["helper"])
    assert sites(found.fn, **found.kwargs)["x"]["fn"].loc == 6
    assert same_when_pasted(found, namespace)


@pytest.mark.parametrize("form", ["x ~ Normal(K, 1)", "def m(x, K):\n    ..."])
def test_a_missing_argument_is_named_with_the_way_out(form: str):
    with pytest.raises(ArgumentError, match=r"no variable 'x'.*define it, or give a value.*m\(x=…\)"):
        define("m(x, K=3)", form, {}, "<cell>")
    with pytest.raises(ArgumentError, match="there is 'data_x'"):
        define("m(data, K=3)", form.replace("x", "data"), {"data_x": 1}, "<cell>")


def test_a_value_for_an_argument_that_the_function_has_not():
    with pytest.raises(ArgumentError, match="no argument 'k'; it has 'x', 'K'"):
        define("m(k=3)", "def m(x, K):\n    ...", {"x": 1}, "<cell>")


@pytest.mark.parametrize("form", ["w ~ Normal(0, 1)\nv = 1 / 0", "def m():\n    w = 1\n    v = 1 / 0"])
def test_tracebacks_have_the_cells_line_numbers(form: str):
    found = define("m", form, {}, "<cell>")
    with pytest.raises(ZeroDivisionError) as caught:
        sites(found.fn)
    (line,) = [e.lineno for e in caught.traceback if str(e.path) == "<cell>" or e.frame.code.name == "m"]
    assert line + 1 == 2 + form.count("\n")


@pytest.mark.parametrize(
    ("line", "marked", "says"),
    [
        ("", "", "a name is missing"),
        ("m(x", "(", "never closed"),
        ("  m(x, 3)", "3", ""),
        ("3m", "", ""),
        ("lambda", "lambda", "cannot name a model"),
        ("m(*xs)", "xs", "name every argument"),
        ("m(x=1, y)", "y", "default"),
    ],
)
def test_mistakes_on_the_line(line: str, marked: str, says: str):
    with pytest.raises(SyntaxError) as caught:
        parse_signature(line)
    error = caught.value
    assert error.lineno == 1
    assert error.text == f"%%model {line}\n"
    assert says in str(error)
    start = (error.offset or 1) - 1
    if marked:
        assert error.text[start : start + len(marked)] == marked


def test_values_on_the_line_are_python():
    found = define("m(a=[1, 2], b=n * 2, c=(lambda: 3)())", "q ~ Normal(0, 1)", {"n": 4}, "<cell>")
    assert found.kwargs == {"a": [1, 2], "b": 8, "c": 3}


def test_only_the_compiler_sees_some_mistakes():
    with pytest.raises(SyntaxError, match="outside loop") as caught:
        define("m", "w ~ Normal(0, 1)\nbreak", {}, "<cell>")
    assert (caught.value.lineno, caught.value.text) == (3, "break\n")


def test_scan_is_a_word_and_its_import_is_in_the_source():
    body = "def step(m, v):\n    m ~ Normal(m, 1)\n    return m, m\nscan(step, 0.0, None, length=3)\n"
    found = define("walk", body, {}, "<cell>")
    assert sites(found.fn)["m"]["value"].shape == (3,)
    assert "from numpyro.contrib.control_flow import scan" in found.source
    assert same_when_pasted(found, {})
