"""Every entry of `docs/errors.md`, provoked in a cell: the user's line, the caret, the sentence, the link."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import ArgumentError, GibbsiteError
from IPython.core.interactiveshell import InteractiveShell

Fail = Callable[[str], tuple[Any, str]]
DOCS = Path(__file__).parents[2] / "docs" / "errors.md"

# entry of the catalogue; the parentheses; the cell's lines; the piece above the carets; the sentence
CASES = [
    ("shapes", "X, y", "b ~ Normal(0, 1).expand([4])\ny ~ Normal(X @ b, 1)", "X @ b",
     r"X is 30 rows by 3 columns, b is 4 long; the 3 columns of X meet 4 elements of b: make b 3 long"),
    ("shapes", "y", "b ~ Normal(0, 1).expand([4])\nmu = b + y\ny ~ Normal(mu, 1)", "b + y",
     "b is 4 long, y is 30"),
    ("shapes", "y",
     "m ~ Normal(0, 1).expand([30])\nwith plate('n', 29):\n    t ~ Normal(m, 1)\ny ~ Normal(t, 1)", "",
     r"m is 30 long; the plate 'n' has 29 elements, and meets 30"),
    ("shapes", "y", "m ~ Normal(0, 1).expand([29])\ny ~ Normal(m, 1)", "y ~ Normal(m, 1)",
     r"'y', of shape \(30,\)"),
    ("plates-and-data", "y", "m ~ Normal(0, 1)\nwith plate('n', 29):\n    y ~ Normal(m, 1)",
     "y ~ Normal(m, 1)",
     r"plate 'n' around 'y' has 29 elements, and the data of 'y' have 30.*`plate\('n', len\(y\)\)`"),
    ("plates-and-data", "y", "m ~ Normal(0, 1)\nwith plate('n', 0):\n    y ~ Normal(m, 1)", "",
     "no elements"),
    ("missing-tilde", "y", "m = Normal(0, 1)\ny ~ Normal(m, 1)", "",
     r"'m' is a distribution.*write `m ~ Normal\(…\)`"),
    ("missing-tilde", "y", "m = Normal(0, 1)\nk = m + 1\ny ~ Normal(k, 1)", "m + 1",
     r"write `m ~ Normal\(…\)`"),
    ("unknown-name", "y", "s ~ HalfNorml(1)\ny ~ Normal(0, s)", "HalfNorml",
     "no distribution 'HalfNorml'.*'HalfNormal'"),
    ("unknown-name", "y", "s ~ dist.HalfNorml(1)\ny ~ Normal(0, s)", "dist.HalfNorml",
     "did you mean 'HalfNormal'"),
    ("unknown-name", "y", "m ~ Normal(0, 1)\ny ~ Normal(m * offsett, 1)", "offsett", "did you mean 'offset'"),
    ("unknown-name", "y", "y ~ Normal(m, 1)\nm ~ Normal(0, 1)", "m", "'m' is used before.*move `m ~ …` up"),
    ("arguments-of-a-distribution", "y", "m ~ Normal(mean=0)\ny ~ Normal(m, 1)", "Normal(mean=0)",
     r"Normal has no argument 'mean'; did you mean 'loc'\?.*Normal\(loc=0.0, scale=1.0\)"),
    ("arguments-of-a-distribution", "y", "m ~ Gamma()\ny ~ Normal(m, 1)", "Gamma()",
     "Gamma needs concentration"),
    ("arguments-of-a-distribution", "y", "m ~ Normal(1, 2, 3)\ny ~ Normal(m, 1)", "", "too many arguments"),
    ("arguments-of-a-distribution", "y", "m ~ Normal('m', 0, 1)\ny ~ Normal(m, 1)", "",
     "stands before the `~`"),
    ("arguments-of-a-distribution", "y", "m ~ Normal('m', 1)\ny ~ Normal(m, 1)", "'m'",
     "'loc' of 'm' is the text 'm'"),
    ("not-a-distribution", "y", "m ~ 3.0\ny ~ Normal(m, 1)", "", "is a float and no distribution.*`=`"),
    ("not-a-distribution", "y", "m ~ Normal\ny ~ Normal(m, 1)", "", "without its parentheses"),
    ("not-a-distribution", "y", "m = numpyro.sample(dist.Normal(0, 1), 'm')\ny ~ Normal(m, 1)", "",
     "name comes first"),
    ("value-of-a-latent", "y", "m ~ Normal(0, 1)\nk = np.exp(m)\ny ~ Normal(k, 1)", "np.exp(m)",
     "use `jnp` functions"),
    ("value-of-a-latent", "y", "m ~ Normal(0, 1)\nif m > 0:\n    m = 0\ny ~ Normal(m, 1)", "m > 0",
     "`jnp.where`"),
    ("value-of-a-latent", "y", "m ~ Normal(0, 1)\nk = int(m)\ny ~ Normal(k, 1)", "int(m)",
     "while it is traced"),
    ("value-of-a-latent", "y", "k ~ Poisson(3)\nfor i in range(k):\n    i\ny ~ Normal(k, 1)", "range(k)",
     "fixed size"),
    ("index-of-another-type", "y, codes", "a ~ Normal(0, 1).expand([3])\ny ~ Normal(a[codes], 1)", "a[codes]",
     r"'codes' picks elements and holds float32.*`codes.astype\(int\)`"),
    ("sampled-twice", "y", "a ~ Normal(0, 1)\na ~ Normal(0, 2)\ny ~ Normal(a, 1)", "",
     "'a' is sampled twice"),
    ("shadowed", "y", "exp ~ Normal(0, 1)\ny ~ Normal(exp(2.0), 1)", "exp(2.0)",
     "hides the function of that name"),
    ("assignment-to-an-element", "y", "a ~ Normal(0, 1).expand([3])\na[0] = 0.0\ny ~ Normal(a[0], 1)", "a[0]",
     r"\.at\["),
    ("unknown-column", "df", "m ~ Normal(0, 1)\nv = df.yy\nw ~ Normal(v * m, 1)", "df.yy",
     "no column 'yy'; it has 'y'"),
    ("arrays-in-a-model", "y", "m ~ Normal(0, 1)\ny ~ Normal(m.values, 1)", "m.values",
     "no attribute 'values'"),
    ("no-numbers", "things", "m ~ Normal(0, 1)\nthings ~ Normal(m, 1)", "things",
     "hold no numbers but object"),
    ("impossible-parameter", "X, label", "b ~ Normal(0, 1).expand([3])\nlabel ~ Bernoulli(X @ b)", "X @ b",
     r"'probs' of 'label' is .* of the draws from the prior.*did you mean `logits=`"),
    ("impossible-parameter", "y", "s ~ Normal(0, 1)\ny ~ Normal(0, scale=s)", "s",
     "'scale' of 'y' is -.*HalfNormal"),
    ("outside-the-support", "k", "p ~ Beta(1, 1)\nk ~ Binomial(5, p)", "",
     "[Tt]he data of 'k' hold 7.*Binomial never draws"),
    ("index-out-of-range", "y, g", "a ~ Normal(0, 1).expand([2])\ny ~ Normal(a[g], 1)", "[g]",
     "'g' runs from 0 to 2"),
    ("nan-in-a-covariate", "y, gaps", "a ~ Normal(0, 1)\ny ~ Normal(a * gaps, 1)", "a * gaps",
     "'gaps' holds 2 NaN"),
    ("missing-values", "gaps", "a ~ Normal(0, 1)\ngaps ~ Normal(a, 1)", "",
     r"hold 2 NaN \(the first at \[3\]"),
]  # fmt: skip


@pytest.fixture
def data(shell: InteractiveShell) -> None:
    y = np.linspace(0.0, 1.0, 30)
    gaps = np.where(np.isin(np.arange(30), [3, 5]), np.nan, y)
    shell.user_ns |= {"np": np, "jnp": jnp, "dist": dist, "numpyro": numpyro, "X": np.ones((30, 3)), "y": y}
    shell.user_ns |= {"codes": np.zeros(30), "g": np.arange(30) % 3, "gaps": gaps, "k": 7, "offset": 1.0}
    shell.user_ns |= {"df": pd.DataFrame({"y": y}), "label": (y > 0.5).astype(int)}
    shell.user_ns["things"] = np.array([{}, {}], object)


@pytest.mark.parametrize(("entry", "given", "body", "piece", "sentence"), CASES)
def test_an_error_of_a_cell(
    data: None, fail: Fail, entry: str, given: str, body: str, piece: str, sentence: str
):
    error, seen = fail(f"%%model m({given})\n{body}")
    assert isinstance(error, GibbsiteError)
    assert error.entry == entry
    head, line, carets, says, more = seen.strip().splitlines()
    number = int(re.search(r" in line (\d+)$", head).group(1))  # type: ignore[union-attr]
    assert line.strip() == f"%%model m({given})\n{body}".splitlines()[number - 1].strip()
    below = line[carets.index("^") :][: carets.count("^")]
    assert below.startswith(piece) if piece else below
    assert re.search(sentence, says)
    assert more.startswith(f"More: docs/errors.md#{entry};")


def test_arguments_that_a_function_lacks():
    def reg(x, y, scale=1.0):
        numpyro.sample("y", dist.Normal(numpyro.sample("a", dist.Normal(0, 1)) * x, scale), obs=y)

    with pytest.raises(
        ArgumentError, match=r"reg needs 'y', which was not given: gibbsite.model\(reg, y=…\)"
    ):
        gb.model(reg, 1.0)
    with pytest.raises(ArgumentError, match=r"no argument 'scal'; did you mean 'scale'") as caught:
        gb.model(reg, 1.0, 2.0, scal=3.0)
    assert caught.value.entry == "arguments-of-a-model"


def test_every_entry_is_provoked_and_every_error_has_its_entry():
    headings = set(re.findall(r"^## (\S+)$", DOCS.read_text(encoding="utf-8"), re.MULTILINE))
    assert headings == {c[0] for c in CASES} | {"arguments-of-a-model"}


def test_the_whole_traceback_is_there_when_asked_for(
    shell: InteractiveShell, data: None, fail: Fail, capsys: Any
):
    _, seen = fail("%%model m(X, y)\nb ~ Normal(0, 1).expand([4])\ny ~ Normal(X @ b, 1)")
    assert len(seen.strip().splitlines()) == 5
    shell.run_line_magic("tb", "")
    assert "dot_general" in capsys.readouterr().out


def test_an_error_of_a_library_shows_the_users_line_too(fail: Fail):
    error, seen = fail("%%model m\nw ~ Dirichlet(1.0)\n")
    assert isinstance(error, ValueError)
    assert len(seen.strip().splitlines()) == 5
    assert "w ~ Dirichlet(1.0)" in seen
    assert "at least one-dimensional" in seen
