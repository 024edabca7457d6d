"""Marginals as plots: densities and bars, forests, strips of probabilities, and two scalars as a scatter."""

import numpy as np

from gibbsite.sampling.derived.marginals import Forest, Marginal, Ribbon, Shown, Strip
from gibbsite.views.ink import svg
from gibbsite.views.ink.colours import BAD, CHAINS, OTHERS
from gibbsite.views.plots.plot import (
    Axis,
    Band,
    Bars,
    Cells,
    Dots,
    Line,
    Mark,
    Plot,
    Rows,
    Stretches,
    Tip,
    reach,
)
from gibbsite.views.posterior.gather import Pair, Posterior
from gibbsite.views.run.content import MAX_CHAINS
from gibbsite.views.run.convergence import chain_name
from gibbsite.views.run.words import beside

CARD, LARGE = 118, 300
_ROW = 15
# Letters that have room below a card and below a large plot.
_LETTERS, _WIDE = 40, 70
# Letters above a card, where a long name has wide ones among them, and of a name at least.
_TITLE, _CLOSE, _LEAST_NAME = 36, 33, 17
# More elements than this stand side by side, with their categories below each other.
_UPRIGHT = 24


def plot_of(found: Shown, name: str, *, large: bool = False) -> Plot:
    """The plot of one site or scalar; tables are named after `name`."""
    match found:
        case Marginal():
            return _marginal(found, name, large)
        case Forest():
            return _forest(found, name, large)
        case Strip():
            return _strip(found, name, large)
        case Ribbon():
            return _ribbon(found, name, large)


def focus_rows(posterior: Posterior) -> Rows:
    """What is plotted large: up to two marginals, and both against each other."""
    plots = [plot_of(found, f"focus{i}", large=True) for i, found in enumerate(posterior.focus)]
    if posterior.pair is not None:
        plots.append(_scatter(posterior.pair, "pair"))
    return (tuple(plots),) if plots else ()


def told(found: Marginal) -> str:
    """A scalar in words: `mean 0.31 · median 0.30 · 89 % ETI 0.20 to 0.41`; categories, `penny 0.62 · …`."""
    if _is_named(found):
        return " · ".join(f"{name_of(found, v)} {p:.3f}" for v, p in _likeliest(found))
    if _is_event(found):
        return f"probability {found.mean:.3f}"
    return f"mean {beside(found.mean, found.sd)} · {_middle(found)}"


def name_of(found: Marginal | Strip, value: float) -> str:
    """What a value is called: by its label where it has one."""
    place = round(value)
    return found.called[place] if 0 <= place < len(found.called) else f"{value:g}"


def _is_named(found: Marginal) -> bool:
    return found.discrete and bool(found.called) and found.wide == 1


def _likeliest(found: Marginal, most: int = 3) -> list[tuple[float, float]]:
    """Values and their probabilities, the likeliest first."""
    order = np.argsort(-found.y, kind="stable")[:most]
    return [(float(found.x[i]), float(found.y[i])) for i in order if found.y[i] > 0]


def _is_event(found: Marginal) -> bool:
    return not found.called and found.discrete and found.x.size > 0 and set(found.x) <= {0.0, 1.0}


def _middle(found: Marginal) -> str:
    of = (found.median, found.low, found.high)
    median, low, high = (f"{v:g}" if found.discrete else beside(v, found.sd) for v in of)
    return f"median {median} · {found.interval} {low} to {high}"


def _brief(found: Marginal) -> str:
    if _is_named(found):
        return ", ".join(f"{name_of(found, v)} {p:.2f}" for v, p in _likeliest(found, 1))
    if _is_event(found):
        return f"{found.mean:.3f}"
    low, high = beside(found.low, found.sd), beside(found.high, found.sd)
    if found.discrete:
        low, high = f"{found.low:g}", f"{found.high:g}"
    return f"mean {beside(found.mean, found.sd)} ({low} to {high}){_some(found)}"


def _briefest(found: Marginal) -> str:
    shortest, more, _ = _brief(found).partition(" (")
    return f"{shortest}{_some(found)}" if more else shortest


def _some(found: Marginal) -> str:
    return "" if found.there == 1 else f", {found.there:.0%} there"


def titled(name: str, *tellings: str) -> str:
    """A card's title: the first of what can be told that has room beside the name; beside one that is too
    long for any, the last. That is shortened, and never what is told, as a number that is cut would be
    another."""
    least = min(len(name), _LEAST_NAME)
    told = next((t for t in tellings if least + len(t) + 2 <= _TITLE), tellings[-1])
    whole = f"{name}: {told}"
    return (
        whole if len(whole) <= _TITLE else f"{svg.elided(name, max(least, _CLOSE - len(told) - 2))}: {told}"
    )


def _marginal(found: Marginal, name: str, large: bool) -> Plot:
    top = 1.12 * max(float(np.max(found.y, initial=0)), float(np.max(found.chains, initial=0)), 1e-12)
    if found.prior is not None and large:
        top = max(top, 1.05 * float(found.prior.max()))
    # of two runs, all chains of each together
    chains = found.chains[: MAX_CHAINS if found.other is None else 0]
    if found.other is not None:
        top = max(top, 1.12 * float(np.max(found.other, initial=0)))
    names = [chain_name(c) for c in range(len(chains))]
    value = "probability" if found.discrete else "density"
    place = "@name" if _is_named(found) else "@x"
    tip: Tip = (("", found.label), ("value", place), (value, "@all")) if large else ()
    own: Tip = (("", "$name"), ("value", place), (value, "@$name")) if large else ()
    if found.discrete:
        chains = np.where(chains > 0, chains, np.nan)  # what was never drawn has no dot
    table = {
        "x": found.x,
        "zero": np.zeros(found.x.size),
        "all": found.y,
        **dict(zip(names, chains, strict=True)),
    }
    if _is_named(found):
        table["name"] = [name_of(found, v) for v in found.x]
    if found.other is not None:
        table["other"] = found.other
    if found.prior is not None:
        table["prior"] = found.prior
    marks: list[Mark] = []
    if found.discrete:
        marks.append(Bars(name, "ink", 0.3, tip=tip, y="all", wide=0.85 * found.wide))
        marks += [
            Dots(name, CHAINS[c], 0.9, n, own, y=n, size=6.0 if large else 4.0) for c, n in enumerate(names)
        ]
    else:
        marks.append(Band(name, "ink", 0.09, low="zero", high="all"))
        marks += [Line(name, CHAINS[c], 0.75, n, own, y=n, width=0.9) for c, n in enumerate(names)]
        marks.append(Line(name, "ink", 0.9, tip=tip, y="all", width=1.6))
    if found.other is not None:
        second: Tip = (("", "the other run"), ("value", place), (value, "@other")) if large else ()
        if found.discrete:
            marks.append(Dots(name, "ink", 0.9, tip=second, y="other", size=6.0))
        else:
            marks.append(Line(name, "ink", 0.9, tip=second, y="other", width=1.6, dash=(7, 4)))
    if found.prior is not None:
        prior: Tip = (("", "prior"), ("value", place), (value, "@prior")) if large else ()
        marks.append(Line(name, OTHERS, 0.9, tip=prior, y="prior", width=1.3, dash=(4, 3)))
    ends = f"{name} ends"
    summary = {"low": [found.low], "high": [found.high], "median": [found.median], "y": [0.028 * top]}
    plain = _is_event(found) or _is_named(found)
    if not plain:  # categories have no order, and a yes or no has no interval
        marks.append(Stretches(ends, "ink", 0.95, low="low", high="high", y="y", width=4.0))
        marks.append(Dots(ends, "#ffffff", 1.0, x="median", y="y", size=6.0))
        marks.append(Dots(ends, "ink", 1.0, x="median", y="y", size=4.0))
    half = found.wide / 2
    low, high = (found.x[0] - half, found.x[-1] + half) if found.x.size else (0.0, 1.0)
    ticks = None
    if found.discrete and found.wide == 1 and found.x.size <= 12:
        room = max(4, (_WIDE if large else _LETTERS) // found.x.size)
        ticks = tuple((float(v), svg.clipped(name_of(found, v), room)) for v in found.x)
    under = "" if plain else _middle(found)
    brief = _brief(found) if _is_named(found) else beside(found.mean, found.sd)
    over = f"{found.label}: {brief}" + (", dashed: prior" if found.prior is not None else "")
    over += "" if found.there == 1 else f", where it is there ({found.there:.0%} of the draws)"
    return Plot(
        name,
        {name: table} if plain else {name: table, ends: summary},
        tuple(marks),
        x=Axis(low, high, under if large else "", ticks),
        y=Axis(0.0, top, ticks=None if large else ()),
        title=over if large else titled(found.label, _brief(found), _briefest(found)),
        height=LARGE if large else CARD,
        least=300,
    )


def _forest(found: Forest, name: str, large: bool) -> Plot:
    n = len(found.names)
    y = np.arange(n, 0, -1, dtype=float)
    table = {
        "y": y, "name": list(found.names), "median": found.median, "mean": found.mean, "low": found.low,
        "high": found.high, "inner_low": found.inner_low, "inner_high": found.inner_high,
    }  # fmt: skip
    tip: Tip = (("", "@name"), ("median", "@median"), ("mean", "@mean")) if large else ()
    tip += ((str(found.interval), "@low to @high"),) if large else ()
    low, high = reach(found.low, found.high, *(found.other or ()))
    seconds: tuple[Mark, ...] = ()
    tables = {name: table}
    if found.other is not None:
        median, lows, highs = found.other
        tables[f"{name} other"] = {"y": y - 0.3, "median": median, "low": lows, "high": highs}
        seconds = (
            Stretches(f"{name} other", "ink", 0.5, y="y", width=1.5),
            Dots(f"{name} other", "ink", 0.5, x="median", y="y", size=5.0),
        )
    some = f" · {n} of {found.total} elements, evenly spaced" if n < found.total else ""
    return Plot(
        name,
        tables,
        (
            *seconds,
            Stretches(name, "ink", 0.55, tip=tip, y="y", width=1.5),
            Stretches(name, "ink", 0.9, low="inner_low", high="inner_high", y="y", width=4.0),
            Dots(name, "#ffffff", 1.0, x="median", y="y", size=6.0),
            Dots(name, "ink", 1.0, x="median", y="y", size=4.0),
        ),
        x=Axis(low, high, f"median, 50 % and {found.interval}{some}" if large or some else ""),
        y=Axis(0.4, n + 0.6, ticks=tuple((float(v), words) for v, words in zip(y, found.names, strict=True))),
        title=found.site if large else titled(found.site, f"median, {found.interval}", str(found.interval)),
        height=max(LARGE, 60 + 18 * n) if large else 58 + _ROW * n,
        least=300,
    )


def _ribbon(found: Ribbon, name: str, large: bool) -> Plot:
    x = found.x
    table = {
        "x": x, "name": list(found.names), "median": found.median, "low": found.low, "high": found.high,
        "inner_low": found.inner_low, "inner_high": found.inner_high,
    }  # fmt: skip
    tip: Tip = (("", "@name"), ("median", "@median"), (str(found.interval), "@low to @high")) if large else ()
    tables = {name: table}
    marks: list[Mark] = [
        Band(name, "ink", 0.13, low="low", high="high"),
        Band(name, "ink", 0.22, low="inner_low", high="inner_high"),
        Line(name, "ink", 0.95, tip=tip, y="median", width=1.6),
    ]
    shown, told = [found.low, found.high], f"median, 50 % and {found.interval}"
    if found.other is not None:
        median, low, high = found.other
        tables[f"{name} other"] = {"x": x, "median": median, "low": low, "high": high}
        marks += [Line(f"{name} other", OTHERS, 0.9, y=y, dash=(4, 3)) for y in ("median", "low", "high")]
        shown += [low, high]
    if found.data is not None:
        tables[f"{name} data"] = {"x": x, "y": found.data}
        marks.append(Dots(f"{name} data", CHAINS[0], 0.8, tip=(("data", "@y"),) if large else (), size=4.0))
        shown.append(found.data)
        told += ", dots: data"
    some = f" · {x.size} of {found.total} elements, evenly spaced" if x.size < found.total else ""
    # not at the ends, where words would be cut
    at = np.unique(((np.arange(5) + 0.5) / 5 * (x.size - 1)).round().astype(int))
    plain = found.names[0] == found.labels[0]  # without labels of their own
    ticks = tuple((float(x[i]), str(int(x[i])) if plain else svg.clipped(found.names[i], 12)) for i in at)
    return Plot(
        name,
        tables,
        tuple(marks),
        x=Axis(float(x[0]), float(x[-1]), told + some if large or some else "", ticks),
        y=Axis(*reach(*shown)),
        title=found.site if large else f"{found.site}: {told}",
        height=LARGE if large else 2 * CARD,
        least=300,
    )


def upright(found: Strip) -> bool:
    """Whether elements stand below each other, a row each."""
    return len(found.names) <= _UPRIGHT


def _strip(found: Strip, name: str, large: bool) -> Plot:
    n, k = found.shares.shape
    element, category = np.meshgrid(np.arange(n), np.arange(k), indexing="ij")
    categories = [name_of(found, c) for c in found.categories]
    table = {
        "element": element.ravel().astype(float),
        "row": (n - element.ravel()).astype(float),
        "category": category.ravel().astype(float),
        "shade": found.shares.ravel(),
        "name": [found.names[i] for i in element.ravel()],
        "value": [categories[i] for i in category.ravel()],
    }
    tip: Tip = (("", "@name"), ("value", "@value"), ("probability", "@shade")) if large else ()
    some = f" · {n} of {found.total} elements, evenly spaced" if n < found.total else ""
    values = tuple((float(i), words) for i, words in enumerate(categories))
    standing = upright(found)
    rows = tuple((float(n - i), words) for i, words in enumerate(found.names))
    return Plot(
        name,
        {name: table},
        (
            Cells(
                name,
                tip=tip,
                x="category" if standing else "element",
                y="row" if standing else "category",
            ),
        ),
        x=Axis(-0.5, k - 0.5, "value", values) if standing else Axis(-0.5, n - 0.5, f"element{some}"),
        y=Axis(0.4, n + 0.6, ticks=rows) if standing else Axis(-0.6, k - 0.4, ticks=values),
        title=f"{found.site}: probability of each value",
        height=(58 + _ROW * n if standing else 58 + _ROW * k) * (2 if large and not standing else 1),
        least=300,
    )


def _scatter(pair: Pair, name: str) -> Plot:
    marks: list[Mark] = []
    tables: dict[str, dict[str, np.ndarray]] = {}
    first, second = pair.labels
    for c, (x, y) in enumerate(zip(pair.x, pair.y, strict=True)):
        own = chain_name(c)
        tables[f"{name} {own}"] = {"x": x, "y": y}
        marks.append(
            Dots(f"{name} {own}", CHAINS[c], 0.45, own, (("", own), (first, "@x"), (second, "@y")), size=3.5)
        )
    tables[f"{name} divergent"] = {"x": pair.diverged_x, "y": pair.diverged_y}
    tip: Tip = (("divergent", ""), (first, "@x"), (second, "@y"))
    marks.append(Dots(f"{name} divergent", BAD, 0.95, tip=tip, size=6.0))
    many = pair.diverged_x.size
    return Plot(
        name,
        tables,
        tuple(marks),
        x=Axis(*reach(pair.x), label=first),
        y=Axis(*reach(pair.y)),
        title=f"{second} against {first}" + (" (red: divergences)" if many else ""),
        height=LARGE,
        least=300,
    )
