"""Expressions over draws: what they mean, against NumPy; and what they refuse, with the place."""

import ast

import numpy as np
import pytest
from gibbsite.errors import ExpressionError, GibbsiteError
from gibbsite.sampling.derived.expression import MOST_DEPTH, Shape, parse
from hypothesis import given
from hypothesis import strategies as st

COUNTIES = ("Aitkin", "Anoka", "Becker")
SITES = {
    "mu": Shape((2,), [None]),
    "tau": Shape((), []),
    "theta": Shape((3,), [COUNTIES]),
    "table": Shape((2, 3), [None, COUNTIES]),
    "arm/mu": Shape((), []),
    "k": Shape((3,), [COUNTIES], ("none", "urban", "rural", "both")),
    "year": Shape((3,), [("2019", "2020", "2022")]),
    "item": Shape((3,), [("2", "0", "1")], ("1", "2", "3", "5")),
    "plain": Shape((3,), [("0", "1", "2")], ("0", "1", "2", "3")),
    "count": Shape((3,), [COUNTIES]),
    "sick": Shape((3,), [COUNTIES], ("no", "yes")),
}
RNG = np.random.default_rng(3)
DRAWS = {n: RNG.normal(1, 2, (2, 5, *s.shape)) for n, s in SITES.items()}
DRAWS["tau"] = np.abs(DRAWS["tau"])
DRAWS["k"], DRAWS["count"] = (RNG.integers(1, 4, (2, 5, 3)) for _ in range(2))
DRAWS["sick"] = RNG.integers(0, 2, (2, 5, 3))
DRAWS["item"], DRAWS["plain"] = (RNG.integers(0, 4, (2, 5, 3)) for _ in range(2))
ITEM = np.array([1, 2, 3, 5])[DRAWS["item"]]
mu, tau, theta, table, k = (DRAWS[n] for n in ("mu", "tau", "theta", "table", "k"))
MEANT = {
    "mu[1] - mu[0]": mu[..., 1] - mu[..., 0],
    "tau > 5": tau > 5,
    "mu[-1]": mu[..., 1],
    "theta['Anoka'] / tau": theta[..., 1] / tau,
    "theta[Becker]": theta[..., 2],
    # numbers that are names stand for what they name, as tables and summaries have it
    "year[2020] - year[2019]": DRAWS["year"][..., 1] - DRAWS["year"][..., 0],
    "year[-1] + year['2019']": DRAWS["year"][..., 2] + DRAWS["year"][..., 0],
    "item[0] == 2": ITEM[..., 1] == 2,
    "item[2] >= 3": ITEM[..., 0] >= 3,
    "item > 4": ITEM > 4,
    "4 > item": ITEM < 4,
    "item < 3": ITEM < 3,
    "item <= 2.5": ITEM <= 2.5,
    "item != 5": ITEM != 5,
    "item == '5'": ITEM == 5,
    "item == -1": ITEM == -1,
    "plain[1] == 2": DRAWS["plain"][..., 1] == 2,
    "theta[1:] - theta[0]": theta[..., 1:] - theta[..., :1],
    "table[1, 'Aitkin']": table[..., 1, 0],
    "table[0] * theta": table[..., 0, :] * theta,
    "table - theta": table - theta[..., None, :],
    "table + tau": table + tau[..., None, None],
    "`arm/mu` + `arm/mu`": 2 * DRAWS["arm/mu"],
    "mean(theta)": theta.mean(-1),
    "max(theta)": theta.max(-1),
    "max(theta, 0)": np.maximum(theta, 0),
    "max(mu[0], mu[1], tau)": np.maximum(np.maximum(mu[..., 0], mu[..., 1]), tau),
    "sum(table)": table.sum((-1, -2)),
    "sd(theta)": theta.std(-1, ddof=1),
    "0 < mu[0] < 2": (mu[..., 0] > 0) & (mu[..., 0] < 2),
    "mu[0] > 0 and not mu[1] > 0": (mu[..., 0] > 0) & ~(mu[..., 1] > 0),
    "tau if mu[0] > 0 else -tau": np.where(mu[..., 0] > 0, tau, -tau),
    "any(theta > 3)": (theta > 3).any(-1),
    "std(theta) + var(table)": theta.std(-1) + table.var((-1, -2)),
    "mean(table, axis=0)": table.mean(-2),
    "table.mean(axis=1) + table.mean(-1)": 2 * table.mean(-1),
    "np.max(table, 0)": table.max(-2),
    "np.maximum(theta, 0) + jnp.minimum(tau, 1)": np.maximum(theta, 0) + np.minimum(tau, 1)[..., None],
    "(theta - theta.mean()).sum() + np.pi": (theta - theta.mean(-1)[..., None]).sum(-1) + np.pi,
    "argmax(theta) == 'Anoka'": theta.argmax(-1) == 1,
    "argmin(table, axis=1) == Anoka": table.argmin(-1) == 1,
    "argmax(year) == 2020": DRAWS["year"].argmax(-1) == 1,
    "argmax(year) - 2019": np.array([0, 1, 3])[DRAWS["year"].argmax(-1)],
    "argmax(theta - tau)": theta.argmax(-1),
    "argmin(table)": table.reshape(2, 5, 6).argmin(-1),
    "argmax(table, axis=0)": table.argmax(-2),
    "argmax(tau) + sort(tau)": tau,
    "sort(table)": np.sort(table, -1),
    "cumsum(table, axis=0)": np.cumsum(table, -2),
    "jax.nn.softmax(theta)": np.exp(theta) / np.exp(theta).sum(-1, keepdims=True),
    "sigmoid(tau)": 1 / (1 + np.exp(-tau)),
    "table @ theta": np.einsum("cdij,cdj->cdi", table, theta),
    "mu @ table": np.einsum("cdi,cdij->cdj", mu, table),
    "np.dot(mu, mu)": (mu**2).sum(-1),
    "table.T": np.swapaxes(table, -1, -2),
    "(table @ table.T)[1, 0]": np.einsum("cdj,cdj->cd", table[..., 1, :], table[..., 0, :]),
    "(theta - tau)[1:]": (theta - tau[..., None])[..., 1:],
    "exp(-tau ** 2 / 2)": np.exp(-(tau**2) / 2),
    "count[0] / count[1]": np.divide(DRAWS["count"][..., 0].astype(float), DRAWS["count"][..., 1]),
    "count[0] ** -1": DRAWS["count"][..., 0].astype(float) ** -1,
    "mean(item)": ITEM.mean(-1),
    "item[2]": ITEM[..., 0],
    "item[2] - 1 > 1": ITEM[..., 0] - 1 > 1,
    "-item + plain": DRAWS["plain"] - ITEM,
    "max(item, 3)": np.maximum(ITEM, 3),
    "item > 2 * 2": ITEM > 4,
    "item == mu[0]": mu[..., :1] == ITEM,
    "item == plain": DRAWS["plain"] == ITEM,
    "item if tau > 1 else 0": np.where(tau[..., None] > 1, ITEM, 0),
    "mean(sick)": DRAWS["sick"].mean(-1),
    "k[2]": k[..., 2],
    "k == 2": k == 2,
    "k == rural": k == 2,
    "k['Anoka'] != 'both'": k[..., 1] != 3,
    "mean(urban == k)": (k == 1).mean(-1),
    "e * pi * tau": np.e * np.pi * tau,
}


@pytest.mark.parametrize("text", MEANT)
def test_expressions_mean_what_numpy_says(text):
    expression = parse(text, SITES)
    found = expression.of(DRAWS)
    assert found.shape == (2, 5, *expression.shape) == MEANT[text].shape
    np.testing.assert_allclose(found, MEANT[text])
    assert (found.dtype == bool) == (MEANT[text].dtype == bool)


REFUSED = {
    "nu + 1": ("did you mean mu", "nu"),
    "k == 'rurel'": ("no value is called 'rurel'; did you mean rural", "'rurel'"),
    "mu == rural": ("no site is called 'rural'", "rural"),
    "theta['Anocka']": ("did you mean Anoka", "'Anocka'"),
    "theta[Le Sueur] - 1": ("labels stand in quotes: theta['Le Sueur']", None),
    "mu[2]": ("indices are 0 to 1", "2"),
    "mu['a']": ("no labels", "'a'"),
    "tau[0]": ("no elements", "tau[0]"),
    "mu[0][0]": ("no elements", "mu[0][0]"),
    "(mu @ mu)[0]": ("mu @ mu has no elements", "(mu @ mu)[0]"),
    "table.T[3]": ("3 elements along axis 0; its indices are 0 to 2", "3"),
    "mu[tau]": ("no labels", "tau"),
    "mu[0.5]": ("whole number", "0.5"),
    "mu[::0]": ("step 0", "::0"),
    "mu[5:]": ("no elements", "mu[5:]"),
    "exq(tau)": ("did you mean exp", "exq"),
    "exp": ("is a function", "exp"),
    "exp(tau, tau)": ("takes 1 value, not 2", "exp(tau, tau)"),
    "sum(mu, axis=tau)": ("whole number", "tau"),
    "sum(mu, axis=1)": ("no axis 1 of shape (2,)", "sum(mu, axis=1)"),
    "exp(mu, axis=0)": ("values alone", "exp(mu, axis=0)"),
    "mu.exp(dtype=1)": ("values alone", "mu.exp(dtype=1)"),
    "argmax(theta) == Anocka": ("did you mean Anoka", "Anocka"),
    "argmax(mu, axis=tau)": ("whole number", "tau"),
    "argmax(theta) + 1": ("argmax(theta) is one of Aitkin, Anoka, Becker", "argmax(theta)"),
    "argmax(year - mu[0]) == 2020": (
        "which of 2019, 2020, 2022, …? Ask it of a site",
        "argmax(year - mu[0])",
    ),
    "np.linalg.det(table)": ("attributes cannot be read", "np.linalg.det"),
    "table @ mu": ("shapes (2, 3) and (2,) have no matrix product", "table @ mu"),
    "mean(k)": ("no numbers; compare it, as in mean(k == 'none')", "k"),
    "k[0] - 1": ("is one of none, urban, rural, both", "k[0]"),
    "-k": ("no numbers", "k"),
    "mu + theta": ("do not go together", "mu + theta"),
    "1 + 1": ("reads no site", "1 + 1"),
    "mu.__class__": ("attributes", "mu.__class__"),
    "(1).__class__.__bases__": ("attributes", "(1).__class__.__bases__"),
    "mu.mean": ("attributes", "mu.mean"),
    "mu.mode()": ("mean, median", "mu.mode"),
    "__import__('os').system('true')": ("attributes", "__import__('os').system"),
    "eval('tau')": ("no function is called", "eval"),
    "lambda: tau": ("only arithmetic", "lambda: tau"),
    "[tau for tau in mu]": ("only arithmetic", "[tau for tau in mu]"),
    "(tau := 3)": ("only arithmetic", "tau := 3"),
    "f'{tau}'": ("only arithmetic", "f'{tau}'"),
    "tau @ tau": ("no matrix product", "tau @ tau"),
    "tau << 9": ("only arithmetic", "tau << 9"),
    "tau in mu": ("only arithmetic", "tau in mu"),
    "tau + 'a'": ("only numbers", "'a'"),
    "tau + True": ("only numbers", "True"),
    "tau + 1j": ("only numbers", "1j"),
    "tau +": ("no expression", "+"),
    "": ("an expression is needed", None),
    "é + `ärm`": ("no site is called", "é"),
    "tau + `ärm` + é": ("no site is called 'ärm'", "`ärm`"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_says_where_and_why(text):
    words, place = REFUSED[text]
    with pytest.raises(ExpressionError) as told:
        parse(text, SITES)
    assert words in told.value.sentence
    assert isinstance(told.value, ValueError) and "\n" not in told.value.sentence
    if place is not None:
        error = told.value
        assert error.text[error.start : error.start + error.length] == place
        assert str(error).splitlines()[-1].index("^") == 4 + error.start


@pytest.mark.parametrize(
    "text",
    [
        "(" * 400 + "tau" + ")" * 400,
        "-" * 900 + "tau",
        "not " * 200 + "tau",
        "tau" + "[0]" * 200,
        "+".join(["tau"] * (MOST_DEPTH + 50)),
        "9" * 999,
        "tau" * 400,
        "\0tau",
        "tau\ud800",
    ],
)
def test_hostile_texts_end_in_one_sentence(text):
    with pytest.raises(GibbsiteError):
        parse(text, SITES)


def test_numbers_stay_numbers_of_64_bits():
    """No power grows an integer of Python's; what is too large is infinite."""
    assert np.isinf(parse("tau + 9**9**9**9**9", SITES).of(DRAWS)).all()
    assert np.isinf(parse(f"tau + 1{'0' * 400}", SITES).of(DRAWS)).all()
    np.testing.assert_allclose(parse("tau + 2**-1", SITES).of(DRAWS), tau + 0.5)
    assert parse("+".join(["tau"] * 60), SITES).of(DRAWS).shape == (2, 5)
    assert parse("mu + 0*tau", SITES).shape == (2,)


PIECES = st.sampled_from(
    "mu tau theta [ ] ( ) 0 1 2.5 ' \" . , : + - ** / < == and not if else exp mean `a` = @ é".split()
)


@given(st.lists(PIECES, max_size=12))
def test_whatever_is_typed_is_a_value_or_one_sentence(pieces):
    text = " ".join(pieces)
    try:
        found = parse(text, SITES).of(DRAWS)
    except ExpressionError as error:
        assert "\n" not in error.sentence and 0 <= error.start <= len(error.text)
    else:
        assert found.shape[:2] == (2, 5)
        # what is accepted is plain Python over the same names
        assert isinstance(ast.parse(text.replace("`", ""), mode="eval"), ast.Expression)


def test_places_are_told_by_what_they_stand_for():
    """The mean of an index says nothing: how often each is the largest does."""
    assert parse("argmax(theta)", SITES).called == COUNTIES
    assert parse("argmin(mu)", SITES).called == ("0", "1")
    assert parse("k[0]", SITES).called == SITES["k"].values
    for text in ("argmax(year)", "argmax(theta) == 'Anoka'", "mean(theta)", "argmax(theta - tau)"):
        assert parse(text, SITES).called == ()
