"""What keeps a site from an exact update, in the words of its model; the expression is in
`Conditional.reason`."""

import re
from collections.abc import Callable
from typing import Any

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.forms.walk import Coupled
from gibbsite.conditional.reads.group import unit_of
from gibbsite.plans.schedule.elimination import joint_draw
from gibbsite.plans.schedule.registry import Facts, find_kernel

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
        if site in density.maps.latents(atom)
    ]


def _plain(name: str) -> str:
    return {"scale_tril": "covariance", "covariance_matrix": "covariance", "df": "degrees of freedom"}.get(
        name, name.replace("_", " ")
    )


def blocked_by(facts: Facts, kernel: str, sites: tuple[str, ...]) -> str:
    """What kept each site from an exact update, or that one was there and was not asked for.

    A line per obstacle, with the sites that meet it; of many, the first.
    """
    return _obstacles(facts, kernel, sites, _obstacle)


def blocked_in_detail(facts: Facts, kernel: str, sites: tuple[str, ...]) -> str:
    """As `blocked_by`, with the expressions that stand in the way and their lines; empty where that says no
    more."""
    detail = _obstacles(facts, kernel, sites, _expression)
    return "" if detail == blocked_by(facts, kernel, sites) else detail


def _obstacles(facts: Facts, kernel: str, sites: tuple[str, ...], of: Callable[[Facts, str], str]) -> str:
    if kernel in ("Gibbs", "Conjugate"):
        joint = joint_draw(facts, kernel, sites)
        return f"a joint draw: {joint}" if isinstance(joint, str) else ""
    row = find_kernel(kernel)
    if row is not None and row.why is not None:  # it was certified for these sites
        return ""
    found: dict[str, dict[str, str]] = {}
    for site in sites:
        text = of(facts, site)
        found.setdefault(_impersonal(text, site), {})[site] = text
    if len(sites) == 1:
        return next(iter(found.values()))[sites[0]]
    lines = []
    for alike, told in list(found.items())[:_MOST_TOLD]:
        names = list(told)
        text = alike if len(names) > 1 else told[names[0]]
        lines.append(f"· {_several(names)}: {text.removeprefix('nothing: ')}")
    untold = [n for told in list(found.values())[_MOST_TOLD:] for n in told]
    if untold:
        lines.append(f"· and {len(untold)} more: see model.conditional({untold[0]!r}).reason")
    return "\n".join(lines)


_MOST_TOLD = 3
_MOST_NAMES = 4
_LONG = 50


def _several(names: list[str]) -> str:
    rest = len(names) - _MOST_NAMES
    if rest < 2:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {rest} more"


def _obstacle(facts: Facts, site: str) -> str:
    c = facts.conditional(unit_of(facts.density, site))
    better = {"conjugate": "Conjugate", "finite": "Gibbs", "chain": "Gibbs"}.get(c.kind)
    return f"nothing: {better} fits too" if better else obstacle_in_words(c)


def _expression(facts: Facts, site: str) -> str:
    c = facts.conditional(unit_of(facts.density, site))
    if c.obstacle is None:
        return _obstacle(facts, site)
    return re.sub(r"`([^`]*)`", lambda m: f"`{_cut(m[1])}`", str(c.obstacle))


def _impersonal(text: str, site: str) -> str:
    """The same for all sites that meet the same obstacle: their names, in code, in brackets and as the last
    word, are "it"; elsewhere a name may be a word."""
    name = rf"(?<![\w.]){re.escape(site)}(?![\w.])"
    return re.sub(r"`[^`]*`|\([^()]*(?:\([^()]*\)[^()]*)*\)|\S+$", lambda m: re.sub(name, "it", m[0]), text)


def _cut(expression: str) -> str:
    return expression if len(expression) <= _LONG else f"{expression[:_LONG]}…"
