"""Names that mean nothing, and arguments that a distribution has not: the nearest that there is."""

import difflib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.infer import reparam

from gibbsite.errors import ArgumentError, DataError, GibbsiteError, WordError
from gibbsite.explain.spot import Spot, Told
from gibbsite.inputs.table import Table
from gibbsite.programs.jaxpr.source_line import at_place


def unknown_word(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    """A name that is not known, or not yet."""
    if isinstance(error, UnboundLocalError):
        name = _quoted(error)
        if re.match(rf"\s*{name}\s*\+=", spot.text):
            added = f"a term of the log density is added by `numpyro.factor({name!r}, …)`"
            return WordError, "unknown-name", f"{name!r} has no value to add to; {added}"
        later = f"`{name} ~ …`" if name not in seen["plates"] else f"plate {name!r}"
        return (
            WordError,
            "unknown-name",
            f"{name!r} is used before the line that gives it a value; move {later} up",
        )
    missing = re.search(r"module 'numpyro(?:\.distributions)?' has no attribute '(\w+)'", str(error))
    if not isinstance(error, NameError) and missing is None:
        return None
    name = missing.group(1) if missing else _quoted(error)
    if name is None or name not in spot.text:
        return None
    known = [n for n, v in spot.values.items() if not n.startswith("_")] + _families()
    near = [_CALLED[name.lower()]] if name.lower() in _CALLED else []
    near = near or [f"{where}.{name}" for where, module in _MODULES if callable(getattr(module, name, None))]
    near = near or difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = (
        f"did you mean {near[0]!r}?" if near else "define it in the notebook, or give it in the parentheses"
    ) + _OTHERWISE.get(name, "")
    kind = "distribution" if missing or (near and near[0] in _families()) else "variable or distribution"
    return WordError, "unknown-name", f"there is no {kind} {name!r}; {hint}"


# functions that a model often calls and a cell does not see by their bare names
_MODULES = (
    ("jnp", jnp),
    ("jax.nn", jax.nn),
    ("jax.scipy.special", jax.scipy.special),
    ("jax.lax", jax.lax),
    ("jax", jax),
    ("numpyro.handlers", handlers),
    ("numpyro.infer.reparam", reparam),
)

# what other languages call them
_CALLED = {
    "n": "Normal", "gaussian": "Normal", "norm": "Normal", "dnorm": "Normal", "normal_lpdf": "Normal",
    "mvnormal": "MultivariateNormal", "mvn": "MultivariateNormal", "multinormal": "MultivariateNormal",
    "multi_normal": "MultivariateNormal", "student": "StudentT", "student_t": "StudentT", "t": "StudentT",
    "bern": "Bernoulli", "dbern": "Bernoulli", "binom": "Binomial", "dbin": "Binomial", "cat": "Categorical",
    "negbin": "NegativeBinomial2", "neg_binomial": "NegativeBinomial2", "neg_binomial_2": "NegativeBinomial2",
    "invgamma": "InverseGamma", "inv_gamma": "InverseGamma", "dgamma": "Gamma", "dunif": "Uniform",
    "unif": "Uniform", "flat": "ImproperUniform", "halfflat": "ImproperUniform", "lkj_corr": "LKJ",
    "lkjcorr": "LKJ", "lkj_corr_cholesky": "LKJCholesky", "lkjcholeskycov": "LKJCholesky",
    "half_normal": "HalfNormal", "half_cauchy": "HalfCauchy", "expon": "Exponential", "dexp": "Exponential",
    "pois": "Poisson", "dpois": "Poisson", "double_exponential": "Laplace",
}  # fmt: skip


# where the arguments are others, too
_OTHERWISE = {
    "dnorm": " Its second argument is a standard deviation; that of BUGS is a precision, 1 / sd**2",
    "dbin": " The total comes first: `Binomial(n, p)`",
}


def _quoted(error: BaseException) -> str | None:
    found = re.search(r"'(\w+)'", str(error))
    return found.group(1) if found else None


def _families() -> list[str]:
    return [n for n in dist.__all__ if n[0].isupper()]


def wrong_call(error: BaseException, spot: Spot, seen: Mapping[str, Any]) -> Told | None:
    """Arguments that a distribution, or another function of the line, has not."""
    found = re.match(
        r"(\w+)(?:\.__init__)?\(\) (got an unexpected keyword|takes|missing|got multiple)", str(error)
    )
    if not isinstance(error, TypeError) or found is None:
        return None
    family = getattr(dist, found.group(1), None)
    if family is None or found.group(1) not in spot.text:
        return None
    name = found.group(1)
    parameters = [p for p in inspect.signature(family).parameters.values() if p.name != "validate_args"]
    says = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default}" for p in parameters)
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    if found.group(2).startswith("got an unexpected"):
        wrong = _quoted(error) or "?"
        if wrong in _ELSEWHERE and _MEANT.get(wrong) not in names:
            told = f"{name} has no argument {wrong!r}; {_ELSEWHERE[wrong]}"
            return ArgumentError, "arguments-of-a-distribution", told.replace("Family", name)
        near = _MEANT.get(wrong) if _MEANT.get(wrong) in names else None
        near = near or next(iter(difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)), None)
        what = f"{name} has no argument {wrong!r}" + (f"; did you mean {near!r}?" if near else "")
        what += _ALSO.get((name, wrong), "")
    elif found.group(2) == "missing":
        needed = ", ".join(re.findall(r"'(\w+)'", str(error)))
        what = f"{name} needs {needed}"
    else:
        what = f"{name} is given too many arguments, or one twice"
        if re.search(rf"{name}\(\s*['\"]", spot.text):
            what = f"the name of a site does not go into {name}: it stands before the `~`"
    call = f" The call is {name}({says})" if what.endswith("?") else f": the call is {name}({says})"
    return ArgumentError, "arguments-of-a-distribution", f"{what}{call}"


_ALSO = {
    ("Exponential", "scale"): "; its rate is 1 / scale",
    ("Gamma", "scale"): "; its rate is 1 / scale",
    ("InverseGamma", "scale"): "; NumPyro calls its scale the rate",
    ("InverseGamma", "beta"): "; NumPyro calls its scale the rate",
    ("Normal", "variance"): "; it takes a standard deviation, `scale=`",
    ("Normal", "precision"): "; it takes a standard deviation, `scale=1 / jnp.sqrt(…)`",
    ("Normal", "tau"): "; it takes a standard deviation, `scale=1 / jnp.sqrt(…)`",
}
# what other packages give to a distribution, and NumPyro does not
_ELSEWHERE = {
    n: "an array of them is `Family(…).expand([…])`, or a plate" for n in ("shape", "size", "dims")
} | {
    n: "what is observed is the argument of the model before `~`, or `obs=` of `numpyro.sample`"
    for n in ("observed", "obs")
}
_MEANT = {
    "mean": "loc", "mu": "loc", "sd": "scale", "sigma": "scale", "std": "scale", "stddev": "scale",
    "p": "probs", "prob": "probs", "logit": "logits", "n": "total_count", "alpha": "concentration1",
    "beta": "concentration0", "a": "concentration", "b": "rate", "shape": "concentration", "lam": "rate",
    "lambda_": "rate", "nu": "df", "lower": "low", "upper": "high", "cov": "covariance_matrix",
}  # fmt: skip


def check_arguments(fn: Callable, name: str, args: tuple, kwargs: Mapping[str, Any]) -> None:
    """Raise `ArgumentError` where `fn(*args, **kwargs)` could not be called, with what is missing."""
    try:
        signature = inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
        return
    except TypeError as error:
        problem = error
    parameters = [p for p in signature.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    names = [p.name for p in parameters]
    unknown = [n for n in kwargs if n not in names]
    if unknown and "unexpected" in str(problem):
        near = difflib.get_close_matches(unknown[0], names, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        has = f"it has {', '.join(map(repr, names))}" if names else "it has none"
        what = f"{name} has no argument {unknown[0]!r}{hint} ({has})"
    else:
        given = {*names[: len(args)], *kwargs}
        missing = [p.name for p in parameters if p.default is p.empty and p.name not in given]
        if missing:
            call = ", ".join([name, *(f"{n}=…" for n in missing)])
            listed = ", ".join(map(repr, missing))
            were = "were" if len(missing) > 1 else "was"
            what = f"{name} needs {listed}, which {were} not given: gibbsite.model({call})"
        else:
            what = f"{name} cannot be called so ({problem}): it is {name}{signature}"
    raise ArgumentError(what).at(None, "arguments-of-a-model") from None


def check_numbers(msg: Mapping[str, Any], at: Callable[[], tuple[str, int] | None]) -> None:
    """Refuse texts, and other things that are no numbers, as parameters or data of a sample statement, which
    stands `at` some line: raises `ArgumentError` and `DataError`."""
    name = msg["name"]
    for fn, parameter, value in _parameters(msg["fn"]):
        if isinstance(value, str):
            line = at()
            raise ArgumentError(
                f"{parameter!r} of {name!r}{at_place(line)} is the text {value!r}, and {type(fn).__name__} "
                f"takes a number: the name of a site stands before the `~`, or first in `numpyro.sample`"
            ).at(line, "arguments-of-a-distribution", repr(value))
        if isinstance(value, list | tuple):
            raise _no_array(f"{parameter!r} of {name!r}", "is", value, name, at())
    value = msg["value"]
    if isinstance(value, str) or (isinstance(value, np.ndarray) and value.dtype.kind not in "biufc"):
        kind, line = "a text" if isinstance(value, str) else f"{value.dtype}", at()
        raise DataError(
            f"the data of {name!r}{at_place(line)} hold no numbers but {kind}: convert them first; "
            f"categories and texts that are passed as arguments become codes by themselves"
        ).at(line, "no-numbers", name)
    if value is not None and not hasattr(value, "dtype") and not isinstance(value, _NUMBERS):
        raise _no_array(f"the data of {name!r}", "are", value, name, at())


def _parameters(fn: Any) -> Iterator[tuple[Any, str, Any]]:
    """The parameters of a distribution, and of those that it is made of."""
    own = getattr(fn, "__dict__", {})
    for parameter in getattr(fn, "arg_constraints", None) or ():
        yield fn, parameter, own.get(parameter)
    for part in own.values():
        for inner in part if isinstance(part, list | tuple) else (part,):
            if isinstance(inner, dist.Distribution):
                yield from _parameters(inner)


def _no_array(what: str, verb: str, value: Any, name: str, line: tuple[str, int] | None) -> GibbsiteError:
    if isinstance(value, Table):
        some = [*map(str, value.columns[:5])]
        return DataError(
            f"{what}{at_place(line)} {verb} a table, of {', '.join(some)}: take one of its columns, as in "
            f"`table[{some[0]!r}]`"
        ).at(line, "no-numbers", name)
    kind = type(value).__name__
    numbers = "…" if kind in ("tuple", "list") else "list(…)"
    return DataError(
        f"{what}{at_place(line)} {verb} a {kind} and no array: write `jnp.array({numbers})`; lists of "
        "numbers become arrays where they are arguments of the model"
    ).at(line, "no-numbers", name)


_NUMBERS = (bool, int, float, complex, list)
