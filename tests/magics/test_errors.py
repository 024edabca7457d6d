"""Every entry of `docs/errors.md`, provoked in a cell: the user's line, the caret, the sentence, the link."""

import ast
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gibbsite as gb
import gibbsite.demo  # its error is one, too
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.diagnostics.verdict.advice import ERRORS, advice, heading, sections
from gibbsite.errors import ArgumentError, GibbsiteError, GrammarError
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from scipy.sparse import csr_matrix

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
     "'y' are 30 long, and their distribution, Normal, is 29 long"),
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
    ("unknown-name", "y", "m ~ Normal(0, 1)\ny ~ Bernoulli(sigmoid(m))", "sigmoid",
     "did you mean 'jax.nn.sigmoid'"),
    ("unknown-name", "y", "m ~ Normal(0, 1)\nwith mask(mask=y > 0):\n    y ~ Normal(m, 1)", "mask",
     "did you mean 'numpyro.handlers.mask'"),
    ("unknown-name", "y", "m ~ Normal(0, 1)\ntarget += Normal(m, 1).log_prob(y).sum()", "target",
     r"no value to add to; .*`numpyro.factor\('target', …\)`"),
    ("unknown-name", "y", "m ~ dnorm(0, 0.001)\ny ~ Normal(m, 1)", "dnorm",
     "did you mean 'Normal'.*standard deviation; that of BUGS is a precision"),
    ("missing-tilde", "y", "m ~ Normal(0, 1) * 3\ny ~ Normal(m, 1)", "Normal(0, 1) * 3",
     r"Normal is a distribution and no number.*`x ~ Normal\(…\)`"),
    ("arguments-of-a-distribution", "y", "m ~ Normal(0, 1, shape=3)\ny ~ Normal(m[0], 1)", "",
     r"no argument 'shape'; an array of them is `Normal\(…\).expand"),
    ("arguments-of-a-distribution", "y", "m ~ Normal(0, 1)\ny ~ Normal(m, 1, observed=y)", "",
     "no argument 'observed'; what is observed is the argument"),
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
     r"use `jnp` functions, which work on latents: `jnp.exp\(…\)`"),
    ("value-of-a-latent", "y", "m ~ Normal(0, 1)\nk = 0.0\nif jnp.exp(m) > 1:\n    k = m\ny ~ Normal(k, 1)",
     "jnp.exp(m) > 1", "not by what a function of JAX does: compare without `jnp.exp`"),
    ("value-of-a-latent", "y, codes", "n = jnp.unique(codes).size\ny ~ Normal(n, 1)\na ~ Normal(0, 1)",
     "jnp.unique(codes)", r"as many elements as the data in 'codes' say.*NumPy does: `np.unique\(codes\)`"),
    ("value-of-a-latent", "y", "m ~ Normal(0, 1)\nk = int(m)\ny ~ Normal(k, 1)", "int(m)",
     "'m', a random variable, which has none while the model is traced; leave the conversion out"),
    ("value-of-a-latent", "y", "k ~ Poisson(3)\na ~ Normal(0, 1).expand([9])\ny ~ Normal(a[:k], 1)", "a[:k]",
     "needs the value of 'k'.* take all of 'a'"),
    ("index-of-another-type", "y, codes", "a ~ Normal(0, 1).expand([3])\ny ~ Normal(a[codes], 1)", "a[codes]",
     r"'codes' picks elements and holds float\d\d.*`codes.astype\(int\)`, or pass the column"),
    ("index-of-another-type", "y", "k ~ Geometric(.1)\ny ~ Normal(jnp.arange(9.)[jnp.clip(k, 0, 8)], 1)", "",
     r"'jnp.clip\(k, 0, 8\)' picks elements.*write `jnp.clip\(k, 0, 8\).astype\(int\)`(?!, or pass)"),
    ("forgotten-data", "y", "m ~ Normal(0, 1)\nnumpyro.sample('y', dist.Normal(m, 1).expand([30]))", "",
     r"given 'y', and nothing reads its values.*`numpyro.sample\('y', …, obs=y\)`"),
    ("sampled-twice", "y", "a ~ Normal(0, 1)\na ~ Normal(0, 2)\ny ~ Normal(a, 1)", "",
     "'a' is sampled in line 2 already; give each"),
    ("sampled-twice", "y", "for i in range(2):\n    a ~ Normal(0, 1)\ny ~ Normal(a, 1)", "a ~ ",
     "'a' is sampled twice; give each"),
    ("sampled-twice", "gaps --missing impute", "a ~ Normal(0, 1)\na ~ Normal(0, 2)\ngaps ~ Normal(a, 1)",
     "a ~ Normal(0, 2)", "'a' is sampled in line 2 already"),
    ("shadowed", "y", "exp ~ Normal(0, 1)\ny ~ Normal(exp(2.0), 1)", "exp(2.0)",
     "hides the function of that name"),
    ("assignment-to-an-element", "y", "a ~ Normal(0, 1).expand([3])\na[0] = 0.0\ny ~ Normal(a[0], 1)", "a[0]",
     r"\.at\["),
    ("unknown-column", "df", "m ~ Normal(0, 1)\nv = df.yy\nw ~ Normal(v * m, 1)", "df.yy",
     "no column 'yy'; it has 'y'"),
    ("arrays-in-a-model", "y", "m ~ Normal(0, 1)\ny ~ Normal(m.loc, 1)", "m.loc",
     "no 'loc'"),
    ("no-numbers", "things", "m ~ Normal(0, 1)\nthings ~ Normal(m, 1)", "things",
     "hold no numbers but object"),
    ("impossible-parameter", "X, label", "b ~ Normal(0, 1).expand([3])\nlabel ~ Bernoulli(X @ b)", "X @ b",
     r"'probs' of 'label' is .* of the draws from the prior.*did you mean `logits=`"),
    ("impossible-parameter", "y", "s ~ Normal(0, 1)\ny ~ Normal(0, scale=s)", "s",
     "'scale' of 'y' is -.*HalfNormal"),
    ("outside-the-support", "k", "p ~ Beta(1, 1)\nk ~ Binomial(5, p)", "",
     "[Tt]he data of 'k' hold 7.*Binomial never draws"),
    ("whole-numbers", "y, g", "a ~ Normal(0, 1)\ny ~ Normal(a * (g * 99999 * 99999), 1)", "",
     r"hole numbers of 'g' come to .*`1\.0 \* g`"),
    ("weights", "y, g", "a ~ Normal(0, 1)\nwith numpyro.handlers.scale(scale=0.0):\n    y ~ Normal(a, 1)",
     "", r"eights are above 0.*handlers\.mask"),
    ("index-out-of-range", "y, g", "a ~ Normal(0, 1).expand([2])\ny ~ Normal(a[g], 1)", "[g]",
     "'g' runs from 0 to 2"),
    ("nan-in-a-covariate", "y, gaps", "a ~ Normal(0, 1)\ny ~ Normal(a * gaps, 1)", "a * gaps",
     "'gaps' holds 2 NaN"),
    ("missing-values", "y", "a ~ Normal(0, 1)\ny ~ Normal(a * masked, 1)", "a * masked",
     r"asked is a masked array.*np\.ma\.filled\(masked"),
    ("shapes", "", "a ~ Normal(0, 1)\nnumpyro.sample('y', Normal(a, 1), obs=masked)", "",
     r"they are a masked array"),
    ("arguments-of-a-distribution", "g",
     "w ~ Dirichlet(jnp.ones(2))\ng ~ MixtureGeneral(Categorical(w), [Delta(0), Poisson(2.0)])",
     "", r"of a mixture have one support.*ZeroInflatedPoisson"),
    ("missing-values", "gaps", "a ~ Normal(0, 1)\ngaps ~ Normal(a, 1)", "",
     r"hold 2 NaN \(the first at \[3\]"),
    ("shapes", "X, y", "b ~ Normal(0, 1).expand([3])\ny ~ Normal(b @ X, 1)", "b @ X",
     "columns stand on the left of a product: `X @ b`"),
    ("shapes", "X, y", "b ~ Normal(0, 1).expand([3])\ny ~ Normal(X * b, 1)", "",
     r"data of 'y' are 30 long, .* Normal, is 30 rows by 3 columns \(b is 3 long\); did you mean `@`"),
    ("shapes", "X, y", "b ~ Normal(0, 1).expand([3])\ny ~ Normal(\n    X[:, :2] @ b, 1)", "X[:, :2] @ b",
     "in the product 2 elements meet 3"),
    ("shapes", "X, y", "b ~ Normal(0, 1)\ny ~ Normal(b * X[:, :1], 1)", "",
     r"\(30,\) and .* Normal, \(30, 1\): .* each value counts 30 times.*squeeze"),
    ("shapes", "X", "with plate('n', 30):\n    X ~ MultivariateNormal(jnp.zeros(2), jnp.eye(2))", "",
     "30 rows by 3 columns, .* MultivariateNormal, is 30 rows by 2 columns"),
    ("shapes", "y", "m ~ Normal(0, 1)\nwith plate('n', 29):\n    e ~ Normal(0, 1)\ny ~ Normal(m + e, 1)", "",
     "'y' are 30 long.*is 29 long .*e is 29 long, as plate 'n'"),
    ("plates-and-data", "y", "m ~ Normal(0, 1)\nwith plate(30):\n    y ~ Normal(m, 1)", "plate(30)",
     "has a name and a size"),
    ("plates-and-data", "y", "m ~ Normal(0, 1)\nwith plate('n', y):\n    y ~ Normal(m, 1)", "plate('n', y)",
     "size of a plate is a whole number, or a column of categories"),
    ("plates-and-data", "y",
     "m ~ Normal(0, 1)\nwith plate('r', 3), plate('n', 30):\n    y ~ Normal(m, 1)", "",
     "opened first has the last axis: open 'n' around 'r'"),
    ("sampled-twice", "y", "m ~ Normal(0, 1)\nwith plate('m', 30):\n    y ~ Normal(m, 1)", "",
     "name of a site and of a plate"),
    ("decided-through-jax", "y", "m ~ Normal(0, 1)\nk = 1.0 if m > 0 else jnp.exp(m)\ny ~ Normal(k, 1)", "",
     r"does not take m, by which Python decides.*jnp.asarray"),
    ("values-that-cannot-be-listed", "y", "with plate('n', 7):\n    o ~ Bernoulli(0.5)\n"
     "y ~ Normal(1.0 if o[0] else 0.0, 1)", "",
     r"array of shape \(7,\): there are more than 64 combinations"),
    ("computed-by-jax", "y", "flags = jnp.array([1, 0])\nm ~ Normal(0, 1)\nif flags[0] > 0:\n    m = m + 1\n"
     "y ~ Normal(m, 1)", "flags[0] > 0", r"though no draw is in it: make its arrays with NumPy"),
    ("computed-by-jax", "y", "flags = jnp.array([1, 0])\nk ~ Bernoulli(0.5)\nm = 1.0\nif k:\n"
     "    m ~ Normal(0, 1)\nm = m + bool(flags.sum() > 0)\ny ~ Normal(m, 1)", "",
     "no draw is in it"),
    ("transformed-by-jax", "y", "z = jax.vmap(lambda k: numpyro.sample('z', Normal(k, 1)))(jnp.arange(3.0))\n"
     "y ~ Normal(z.sum(), 1)", "", "a plate for copies"),
    ("branches-that-differ", "y", "from numpyro.contrib.control_flow import cond\n"
     "u ~ Normal(0, 1)\nx = cond(u > 0, lambda _: numpyro.sample('a', Normal(0, 1)), "
     "lambda _: numpyro.sample('b', Normal(5, 1)), None)\ny ~ Normal(x, 1)", "cond(",
     "Python's `if` of a draw"),
    ("scan-within-scan", "y", "from numpyro.contrib.control_flow import scan\nm ~ Normal(0, 1)\n"
     "def inner(c, v):\n    z = numpyro.sample('z', Normal(c, 1))\n"
     "    numpyro.sample('x', Normal(z, 1), obs=v)\n"
     "    return z, None\nscan(lambda c, v: scan(inner, c, jnp.stack([v, v])), m, y)", "",
     "no other `scan` within its steps.*both as one `scan`"),
    ("whole-numbers", "y", "z ~ Bernoulli(0.5)\ny ~ Normal(z * 10_000_000_000, 1)", "",
     "hole number 10000000000 is larger"),
    ("loop-without-end", "y", "n = 0\nwhile numpyro.sample(f'c[{n}]', Bernoulli(0.5)) >= 0:\n    n += 1", "",
     "more than 200 draws"),
    ("statements-that-change", "y",
     "import sys\nsys.other = not getattr(sys, 'other', False)\nm ~ Normal(0, 1)\nif sys.other:\n"
     "    b ~ Normal(0, 1)\ny ~ Normal(m, 1)", "", "site 'b' is there in one run of the model and not in"),
    ("unknown-name", "y", "m ~ N(0, 1)\ny ~ Normal(m, 1)", "N", "did you mean 'Normal'"),
    ("unknown-name", "y", "m ~ Gaussian(0, 1)\ny ~ Normal(m, 1)", "Gaussian", "did you mean 'Normal'"),
    ("arguments-of-a-distribution", "y", "s ~ Exponential(scale=2)\ny ~ Normal(0, s)", "",
     "rate is 1 / scale: the call is Exponential"),
    ("value-of-a-latent", "y", "m ~ Normal(0, 1)\nprint(f'{m:.2f}')\ny ~ Normal(m, 1)", "",
     "no digits yet"),
    ("value-of-a-latent", "y", "z ~ Normal(0, 1)\nd = {0: 1.0, 1: 2.0}\ny ~ Normal(d[z], 1)", "d[z]",
     "from arrays and not from a dict"),
    ("value-of-a-latent", "y", "m ~ Normal(0, 1)\nk = y[y > m]\ny ~ Normal(m, 1)", "y[y > m]",
     r"`jnp.where\(y > m, y, …\)`"),
    ("value-of-a-latent", "y", "m ~ Normal(0, 1)\nimport math\ny ~ Normal(math.exp(m), 1)", "math.exp(m)",
     r"`jnp.exp\(…\)`"),
    ("unknown-column", "df", "m ~ Normal(0, 1)\ndf['Y'] ~ Normal(m, 1)", "df['Y']",
     "no column 'Y'; it has 'y'; did you mean 'y'"),
    ("tables-of-the-notebook", "y", "a ~ Normal(0, 1).expand([30])\ny ~ Normal(a[df.y], 1)", "a[df.y]",
     r"'df' is a DataFrame of pandas.*`m\(…, df\)`"),
    ("tables-of-the-notebook", "y", "a ~ Normal(0, 1)\ny ~ Normal(a * df.y, 1)", "a * df.y", "'df' is"),
    ("arrays-in-a-model", "df", "m ~ Normal(0, 1)\nv = df.groupby('y')\ndf.y ~ Normal(m, 1)", "df.groupby",
     "no 'groupby'"),
    ("no-numbers", "y", "a ~ Normal(0, 1)\nt = [1, 2]\ny ~ Normal(a * t, 1)", "a * t",
     r"'t' is a list and no array; write `jnp.array\(t\)`"),
    ("no-numbers", "y", "x[0] ~ Normal(0, 1)\nfor t in range(1, 30):\n    x[t] ~ Normal(x[t - 1], 1)\n"
     "y ~ Normal(2 * x, 1)", "2 * x", r"'x' is a dict .*30 values .*`jnp.stack\(list\(x.values\(\)\)\)`"),
    ("no-numbers", "texts", "a ~ Normal(0, 1)\ntexts ~ Normal(a, 1)", "texts",
     "categories .'0.5', '1.5'.*pd.to_numeric"),
    ("arguments-of-a-distribution", "", "a ~ Normal(0, sd=1)", "Normal(0, sd=1)",
     r"did you mean 'scale'\? The call is Normal\(loc"),
    ("shapes", "y", "with plate('n', 29):\n    e ~ Normal(0, 1)\ny ~ Normal(e, 1)", "",
     r"the plate 'n' has 29 elements: write `plate\('n', len\(y\)\)`"),
    ("nan-in-a-covariate", "holes", "a ~ Normal(0, 1)\nholes.y ~ Normal(a * holes.x, 1)", "a * holes.x",
     r"^`holes\['x'\]` holds 1 NaN"),
    ("missing-values", "pairs",
     "a ~ Normal(0, 1)\nwith plate('n', 4):\n    pairs ~ MultivariateNormal(a + jnp.ones(2), jnp.eye(2))", "",
     "draws 2 numbers at once.*`--missing impute`.*given the others"),
    ("missing-values", "df, kind", "a ~ Normal(0, 1).expand([2])\ndf.y ~ Normal(a[kind], 1)", "a[kind]",
     "'kind' has 10 missing values, which pick nothing; .*--missing drop"),
    ("no-numbers", "odd", "a ~ Normal(0, 1)\nodd.y ~ Normal(a, 1)", "odd.y", "'odd' has several columns 'y'"),
    ("no-numbers", "odd", "a ~ Normal(0, 1)\nodd.id ~ Normal(a, 1)", "odd.id",
     r"^odd\['id'\] holds 1099511627776 at \[0\], which int32 cannot hold"),
    ("no-numbers", "odd", "a ~ Normal(0, 1)\nodd.cx ~ Normal(a, 1)", "odd.cx",
     r"^odd\['cx'\] holds complex128, which is no number"),
    ("unknown-column", "wide, y", "a ~ Normal(0, 1)\ny ~ Normal(a * wide[7], 1)", "wide[7]",
     "no column 7; it has 0, 1, 2"),
    ("unknown-column", "parts, y", "a ~ Normal(0, 1)\ny ~ Normal(a * parts['yy'], 1)", "parts['yy']",
     "'parts' has no entry 'yy'; it has 'y'; did you mean 'y'"),
    ("index-of-another-type", "kinds", "a ~ Normal(0, 1)\nkinds.y ~ Normal(a * (kinds.k < 'q'), 1)",
     "kinds.k < 'q'", r"1 for 'q', so write `< 1`"),
    ("index-of-another-type", "kinds", "a ~ Normal(0, 1)\nw = 'x' == kinds['k']\nkinds.y ~ Normal(a * w, 1)",
     "'x' == kinds['k']", "none of them is 'x'; it has 'p', 'q'"),
    ("no-numbers", "pair", "a ~ Normal(0, 1)\npair ~ Normal(a, 1)", "pair",
     r"data of 'pair' are a tuple and no array: write `jnp.array\(…\)`"),
    ("no-numbers", "steps", "a ~ Normal(0, 1)\nb ~ Normal(a * steps, 1)", "a * steps",
     r"'steps' is a range and no array; write `jnp.array\(steps\)`"),
    ("no-numbers", "thin, y", "a ~ Normal(0, 1).expand([30])\ny ~ Normal(thin @ a, 1)", "thin @ a",
     r"'thin' is a sparse matrix of SciPy.*`thin.toarray\(\)`"),
    ("shapes", "y", "a ~ Normal(0, 1)\ny ~ Normal(y @ a, 1)", "y @ a", r"a single number: write `\*`"),
]  # fmt: skip


@pytest.fixture
def data(shell: InteractiveShell) -> None:
    y = np.linspace(0.0, 1.0, 30)
    gaps = np.where(np.isin(np.arange(30), [3, 5]), np.nan, y)
    shell.user_ns |= {"np": np, "jnp": jnp, "dist": dist, "numpyro": numpyro, "X": np.ones((30, 3)), "y": y}
    shell.user_ns |= {
        "codes": np.zeros(30),
        "g": np.arange(30) % 3,
        "gaps": gaps,
        "masked": np.ma.masked_invalid(gaps),
        "k": 7,
        "offset": 1.0,
    }
    shell.user_ns |= {"df": pd.DataFrame({"y": y}), "label": (y > 0.5).astype(int)}
    shell.user_ns |= {"texts": np.array(["0.5", "1.5"]), "kind": pd.Series([None, "p", "q"] * 10)}
    shell.user_ns["pairs"] = np.where(np.arange(8).reshape(4, 2) == 3, np.nan, 1.0)
    shell.user_ns["holes"] = pd.DataFrame({"y": y, "x": np.where(np.arange(30) == 3, np.nan, 1.0)})
    odd = pd.DataFrame({"y": y, "id": 2**40 + np.arange(30), "cx": y + 0j, "z": y})
    shell.user_ns["odd"] = odd.set_axis(["y", "id", "cx", "y"], axis=1)
    shell.user_ns |= {"wide": pd.DataFrame(np.ones((30, 3))), "parts": {"y": y}, "pair": (1.0, 2.0)}
    shell.user_ns |= {"steps": range(3), "thin": csr_matrix(np.eye(30))}
    shell.user_ns["kinds"] = pd.DataFrame({"y": y, "k": ["p", "q"] * 15})
    shell.user_ns["things"] = np.array([{}, {}], object)


@pytest.mark.parametrize(("entry", "given", "body", "piece", "sentence"), CASES)
def test_an_error_of_a_cell(
    data: None, fail: Fail, entry: str, given: str, body: str, piece: str, sentence: str
):
    arguments, *options = given.split(" --")
    cell = "\n".join([" --".join([f"%%model m({arguments})", *options]), body])
    error, seen = fail(cell)
    assert isinstance(error, GibbsiteError)
    assert error.entry == entry
    head, line, carets, says, more = seen.strip().splitlines()
    number = int(re.search(r" in line (\d+)$", head).group(1))  # type: ignore[union-attr]
    assert line.strip() == cell.splitlines()[number - 1].strip()
    below = line[carets.index("^") :][: carets.count("^")]
    assert below.startswith(piece) if piece else below
    assert re.search(sentence, says)
    assert more.startswith(f"More: docs/errors.md#{entry};")


SLIPS = [
    "a ~~ Normal(0, 1)", "a == Normal(0, 1)", "a <- Normal(0, 1)", "a - Normal(0, 1)", "a: Normal(0, 1)",
    "a ~ Normal(0, 1)\nNormal(0, 1)", "a ~ Normal(0, 1)\ny = Normal(a, 1).expand([30])",
]  # fmt: skip


@pytest.mark.parametrize("body", SLIPS)
def test_statements_that_sample_nothing(data: None, fail: Fail, body: str):
    error, seen = fail(f"%%model m(y)\n{body}\ny2 = 3")
    assert isinstance(error, GrammarError)
    slip = body.splitlines()[-1]
    head, line, carets, says = seen.rstrip().splitlines()
    assert head.endswith(f", line {body.count(chr(10)) + 2}")
    assert line.strip() == slip and carets.index("^") == line.index(slip)
    assert says.startswith("SyntaxError: ") and error.__cause__.msg in says
    assert re.search(r"write `(a|name|y) ~ Normal\(…\)`", str(error))


@pytest.mark.parametrize(
    ("body", "cure"),
    [
        ("a = df.y\nwith plate('n', 30):\n    a ~ Normal(0, 1)", "`df.y ~ …`"),
        ("a = df['y'] * 2\na ~ Normal(0, 1)", r"`numpyro.sample\('a', …, obs=df\['y'\] \* 2\)`"),
    ],
)
def test_data_under_a_name_that_is_sampled(
    data: None, fail: Fail, run: Callable[[str], str], body: str, cure: str
):
    error, seen = fail(f"%%model m(df)\n{body}\nb = 3")
    assert isinstance(error, GrammarError) and re.search(f"are lost.* write {cure}", str(error))
    assert body.splitlines()[-1] in seen
    for read in (
        "a ~ Normal(a, 1)",
        "b = a + 1\na ~ Normal(b, 1)",
        "if 0:\n    a ~ Normal(0, 1)\nelse:\n    b ~ Normal(0, 1)",
    ):
        run(f"%%model m(df)\na = df.y\n{read}")


def test_a_misspelt_option_of_a_cell(data: None, fail: Fail):
    for line in ("m(y) --mising impute", "m -q"):
        error, seen = fail(f"%%model {line}\na ~ Normal(0, 1)")
        assert isinstance(error, GrammarError) and "one option, `--missing impute`" in seen


def test_distributions_may_have_names(data: None, run: Callable[[str], str]):
    run("%%model m(y)\nprior = Normal(0, 1)\na ~ prior\nwith plate('n', len(y)):\n    y ~ Normal(a, 1)")


def test_a_plate_without_with(data: None, fail: Fail):
    error, _ = fail("%%model m(y)\nplate('n', 30):\n    y ~ Normal(0, 1)")
    assert isinstance(error, GrammarError) and "`with plate(" in str(error)
    assert isinstance(error.__cause__, SyntaxError)


def test_a_syntax_error_looks_as_in_any_cell(shell: InteractiveShell, data: None, fail: Fail):
    """IPython reads a cell before it runs it; a model's cell is read by the magic, frames below it or not."""
    text = "a ~ Normal(0, 1)\nb = f(1 2)"
    _, seen = fail(f"%%model m(y)\n{text}")
    shell.run_cell("")
    _, plain = fail(f"#\n{text.replace('~', '=')}")
    same = [re.sub(r"Cell In\[\d+\]", "Cell", s).replace("~", "=").rstrip() for s in (seen, plain)]
    assert same[0] == same[1] and "forgot a comma" in seen


def test_a_syntax_error_of_what_the_model_runs_is_the_models(data: None, fail: Fail):
    error, seen = fail("%%model m(y)\na ~ Normal(0, 1)\neval('1 +')\ny ~ Normal(a, 1)")
    assert type(error) is SyntaxError and "eval('1 +')" in seen


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


def entries_in(path: Path) -> set[str]:
    """Every text that a file gives an error for its section, by `.at(…)` or `made(…)`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bound = {
        target.id: node.value
        for node in ast.walk(tree) if isinstance(node, ast.Assign)
        for target in node.targets if isinstance(target, ast.Name)
    }  # fmt: skip
    found: set[str] = set()
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        told = ast.unparse(call.func)
        place = 2 if told == "made" else 1 if re.search(r"(Error|kind)\(.*\)\.at$", told, re.DOTALL) else None
        if place is None or len(call.args) <= place:
            continue
        given = call.args[place]
        meant = bound.get(given.id, given) if isinstance(given, ast.Name) else given
        texts = (meant.body, meant.orelse) if isinstance(meant, ast.IfExp) else (meant,)
        # what is no text is handed on from a call that is looked at itself
        handed_on = ast.unparse(given).endswith("entry")
        assert handed_on or all(isinstance(t, ast.Constant) for t in texts), f"{path}:{call.lineno}"
        found |= {str(t.value) for t in texts if isinstance(t, ast.Constant)}
    return found


def test_every_error_has_a_section_that_the_package_carries():
    package = Path(gb.__file__).parent
    named = set().union(*(entries_in(p) for p in package.rglob("*.py")))
    assert len(named) > 15 and named <= set(sections(ERRORS))
    kinds = [GibbsiteError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert any(
            len(advice(c.__name__, ERRORS)) > 100 for c in kind.__mro__ if c.__name__ in sections(ERRORS)
        )
    assert len(kinds) > 15 and heading(ValueError()) is None
    project = tomllib.loads((DOCS.parents[1] / "pyproject.toml").read_text())
    carried = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert carried["docs/errors.md"] == "gibbsite/docs/errors.md"


def test_more_of_the_last_error(shell: InteractiveShell, fail: Fail, run: Callable[[str], str]):
    assert "as many elements" in run("%more shapes")
    fail("%%model m\na ~ Gama(2, 1)")
    assert "not known, or not yet" in run("%more")
    fail("%schedule m")
    assert "No site, model, topic or column is called so" in run("%more")
    fail("1 / 0")
    with pytest.raises(UsageError, match="none of Gibbsite's"):
        shell.run_line_magic("more", "")


@pytest.mark.slow
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
