"""What keeps a site from an exact update, in the words of its model; the expression is in
`Conditional.reason`."""

from typing import Any

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.forms.walk import Coupled
from gibbsite.trace.jaxpr.compat import Literal

_DIRECT = frozenset(
    [
        *(f"{n}.loc" for n in ("Normal", "LogNormal", "MultivariateNormal", "TruncatedNormal")),
        *(f"{n}.rate" for n in ("Poisson", "Exponential", "Gamma", "InverseGamma")),
        *(f"{n}.probs" for n in ("Bernoulli", "Binomial", "Categorical", "Geometric", "Multinomial")),
        *(f"{n}.scale" for n in ("Normal", "LogNormal")),
        *(f"MultivariateNormal.{n}" for n in ("covariance_matrix", "scale_tril", "precision_matrix")),
        *("Binomial.total_count", "Uniform.high", "Uniform.low", "Pareto.alpha"),
    ]
)
"""Parameters with a conjugate prior, if a site is the parameter or proportional to it."""


def obstacle_in_words(conditional: Conditional) -> str:
    """Why a continuous site without certificate has none, as a statistician would say it."""
    obstacle, site, density = conditional.obstacle, conditional.site, conditional.density
    if obstacle is None:
        return conditional.reason.removeprefix("not conjugate: ")
    prior, origin = _family(density, site), obstacle.origin
    if isinstance(obstacle, Coupled):
        return f"elements of {site} meet in {_statement(density, origin)}: it is not drawn element by element"
    if origin is None or (origin not in density.sites and origin not in density.factor_names):
        others = [n for n in conditional.origins if n != site]
        if not others:
            return f"{_a(prior)} density is not drawn from exactly"
        near = " and ".join(_statement(density, n) for n in others[:3])
        return f"{_a(prior)} prior and {near} combine to no known family"
    if origin == site:
        return f"{_a(prior)} prior is conjugate to no likelihood"
    if origin not in density.sites:
        return f"{origin} is a factor of no conjugate form in {site}"
    family = _family(density, origin)
    names = [n for n in _read_through(density, site, origin) if n]
    kind = "likelihood" if density.sites[origin].role == "observed" else "density"
    if "logits" in names:
        return f"{_a(family)} {kind} with logits has no conjugate prior"
    if not names:
        return f"{_statement(density, origin)} is of no conjugate form in {site}"
    if f"{family}.{names[0]}" in _DIRECT:
        through = f"the {_plain(names[0])} of {origin} ~ {family}"
        return f"{through} depends on {site} through a function without a conjugate prior"
    return f"{_a(family)} {kind} has no conjugate prior for its {_plain(names[0])}"


def _a(name: str) -> str:
    return f"an {name}" if name[:1] in "AEIOU" and not name.startswith("Uni") else f"a {name}"


def _statement(density: Any, name: str) -> str:
    if name not in density.sites:
        return f"the factor {name}"
    kind = "likelihood" if density.sites[name].role == "observed" else "density"
    return f"the {_family(density, name)} {kind} of {name}"


def _family(density: Any, name: str) -> str:
    base = density.transforms.get(name, (density.sites[name].fn_name,))[0]
    return base.removesuffix("Logits").removesuffix("Probs")


def _read_through(density: Any, site: str, origin: str) -> list[str]:
    """The parameters of a statement that read a site, by name."""
    return [
        name.rpartition("/")[2]
        for name, atom in density.outputs["parameters"].get(origin, {}).items()
        if not isinstance(atom, Literal) and site in density.maps.latents(atom)
    ]


def _plain(name: str) -> str:
    return {"scale_tril": "covariance", "covariance_matrix": "covariance", "df": "degrees of freedom"}.get(
        name, name.replace("_", " ")
    )
