"""How a run goes, as plots: trace, ranks and autocorrelation of each parameter, then R-hat and ESS."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from gibbsite.views.ink.colours import BAD, CHAINS, DASHES, OTHERS, STROKES, WORN
from gibbsite.views.plots.plot import Axis, Band, Line, Mark, Plot, Rows, Rug, Rule, Table, reach
from gibbsite.views.run.content import MAX_CHAINS, RHAT_LIMIT, Content, Parameter

WARMING = "  (warm-up: not counted)"
HEIGHT, RUN_HEIGHT = 165, 180
# Fewer prefixes of a run are no course of its measures.
LEAST_MARKS = 10
OTHERS_SHOWN = 20


def rows_of(content: Content, slots: int, least_marks: int = LEAST_MARKS) -> Rows:
    """The plots of one moment. Whatever the moment, there are as many of the same names and marks. R-hat and
    ESS have theirs from `least_marks` on."""
    chains = min(content.snapshot.chains, MAX_CHAINS)
    parameters = [*content.parameters[:slots], *[None] * (slots - len(content.parameters))]
    of_each = [_row(i, p, chains, content.divergent, content.called) for i, p in enumerate(parameters)]
    course = content.marks.size >= least_marks
    return (*of_each, tuple(_running(content, kind, slots, course) for kind in ("rhat", "ess")))


def empty_rows(chains: int, slots: int) -> Rows:
    """The same before anything is known."""
    absent = tuple(_row(i, None, min(chains, MAX_CHAINS), np.zeros(0)) for i in range(slots))
    return (*absent, tuple(_course(kind, slots) for kind in ("rhat", "ess")))


def chain_name(chain: int) -> str:
    """What a chain is called, in tables of plots and in the legend."""
    return f"chain {chain}"


def stroke(slot: int) -> str:
    """The dash that a parameter has where several share one plot."""
    return STROKES[slot % len(STROKES)]


def _row(
    i: int,
    parameter: Parameter | None,
    chains: int,
    divergent: np.ndarray,
    called: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Plot, ...]:
    nothing = np.zeros((chains, 0))
    p = parameter or Parameter("", np.zeros(0), nothing, nothing, nothing, nothing, nothing)
    here, beside = parameter is not None, parameter is not None and not p.warmup
    names = [chain_name(c) for c in range(chains)]
    return (
        _trace(i, p, called.get(p.label, p.label), names, divergent, here),
        _ranks(i, p, names, beside),
        _autocorrelation(i, p, names, beside),
    )


def _trace(
    i: int, p: Parameter, called: str, names: Sequence[str], divergent: np.ndarray, here: bool
) -> Plot:
    last = float(max(p.draw[-1] if p.draw.size else 1, 1))
    low, high = reach(p.low, p.high)
    table: dict[str, np.ndarray] = {"draw": p.draw}
    for c, name in enumerate(names):
        table |= {name: p.values[c], f"low{c}": p.low[c], f"high{c}": p.high[c]}
    step = "warm-up step" if p.warmup else "draw"
    tip = (("", "$name"), (step, "@draw"), ("value", "@$name"))
    bands: list[Mark] = [
        Band(f"trace{i}", CHAINS[c], 0.25, name, x="draw", low=f"low{c}", high=f"high{c}")
        for c, name in enumerate(names)
    ]
    lines = [
        Line(f"trace{i}", CHAINS[c], 0.9, name, tip, x="draw", y=name, width=0.9)
        for c, name in enumerate(names)
    ]
    marks = {"draw": divergent if here else np.zeros(0), "y": np.full(divergent.size if here else 0, low)}
    return Plot(
        f"trace{i}",
        {f"trace{i}": table, f"marks{i}": marks},
        (*bands, *lines, Rug(f"marks{i}", BAD, tip=(("divergence at draw", "@draw"),), x="draw")),
        x=Axis(0.0, last, step, link="draws"),
        y=Axis(low, high),
        title=f"{stroke(i)} {called}{WARMING if p.warmup else ''}" if here else "",
        ground=WORN if p.warmup else None,
        visible=here,
        height=HEIGHT,
        share=2.3,
        least=320,
    )


def rank_shares(counts: np.ndarray) -> np.ndarray:
    """Counts of ranks `[chain, bin]` in units of what equal chains would have."""
    counts = np.asarray(counts, float)
    total = counts.sum(axis=-1, keepdims=True)
    return counts * counts.shape[-1] / np.where(total > 0, total, 1)


def _ranks(i: int, p: Parameter, names: Sequence[str], here: bool) -> Plot:
    """How the ranks of each chain's draws spread over all draws: level where chains agree."""
    shares = rank_shares(p.ranks)
    # A step plot needs the last height twice, at both ends of the last bin.
    heights = np.concatenate([shares, shares[:, -1:]], axis=1)
    table: Table = {"rank": np.linspace(0, 1, heights.shape[1]), **dict(zip(names, heights, strict=True))}
    tip = (("", "$name"), ("rank of all draws", "@rank"), ("share", "@$name"))
    return Plot(
        f"ranks{i}",
        {f"ranks{i}": table},
        tuple(
            Line(f"ranks{i}", CHAINS[c], 1.0, n, tip, x="rank", y=n, width=1.3, step=True)
            for c, n in enumerate(names)
        ),
        x=Axis(0.0, 1.0, "rank of all draws"),
        y=Axis(0.0, max(2.0, float(shares.max(initial=0)) * 1.1)),
        rules=(Rule(1.0),),
        title="ranks",
        visible=here,
        height=HEIGHT,
        least=180,
    )


def _autocorrelation(i: int, p: Parameter, names: Sequence[str], here: bool) -> Plot:
    """Correlation of draws with those `lag` steps earlier."""
    values = p.autocorrelation
    lags = np.arange(values.shape[-1])
    low = min(-0.2, float(np.nanmin(values)) if np.isfinite(values).any() else 0.0)
    tip = (("", "$name"), ("lag", "@lag"), ("correlation", "@$name"))
    return Plot(
        f"acf{i}",
        {f"acf{i}": {"lag": lags, **dict(zip(names, values, strict=True))}},
        tuple(Line(f"acf{i}", CHAINS[c], 1.0, n, tip, x="lag", y=n, width=1.3) for c, n in enumerate(names)),
        x=Axis(0.0, float(max(lags.size - 1, 1)), "lag"),
        y=Axis(low, 1.05),
        rules=(Rule(0.0),),
        title="autocorrelation",
        visible=here,
        height=HEIGHT,
        least=180,
    )


def _running(content: Content, kind: str, slots: int, course: bool) -> Plot:
    """R-hat (`kind="rhat"`) or bulk ESS (`"ess"`) as the run went on, against its threshold; hidden where
    that is no `course` yet."""
    both = {"rhat": content.rhat, "ess": content.ess}
    series = both[kind]
    chosen = [p.label for p in content.parameters][:slots]
    limit = RHAT_LIMIT if kind == "rhat" else float(content.ess_limit)
    nothing = np.full(content.marks.size, np.nan)
    tables: dict[str, Table] = {}
    for i in range(slots):
        label = chosen[i] if i < len(chosen) else None
        of = {k: s.get(label, nothing) if label else nothing for k, s in both.items()}
        tables[f"run{i}"] = {
            "draw": content.marks,
            **of,
            "label": [content.called.get(label or "", label or "")] * content.marks.size,
        }
    tables["others"] = _others(content, chosen)
    return _course(
        kind,
        slots,
        tables,
        last=float(content.marks[-1]) if content.marks.size else 1.0,
        span=running_span(series, kind, limit, chosen),
        limit=limit,
        visible=bool(content.parameters) and not content.warming and course,
    )


def _course(
    kind: str,
    slots: int,
    tables: Mapping[str, Table] | None = None,
    *,
    last: float = 1.0,
    span: tuple[float, float] = (0.0, 1.0),
    limit: float = RHAT_LIMIT,
    visible: bool = False,
) -> Plot:
    empty = {n: np.zeros(0) for n in ("draw", "rhat", "ess")}
    if tables is None:
        tables = {f"run{i}": {**empty, "label": []} for i in range(slots)} | {"others": empty}
    what = "R-hat" if kind == "rhat" else "bulk ESS"
    tip = (("", "@label"), ("draw", "@draw"), (what, f"@{kind}"))
    lines = (
        Line(f"run{i}", x="draw", y=kind, width=1.7, dash=DASHES[i % len(DASHES)], tip=tip)
        for i in range(slots)
    )
    return Plot(
        kind,
        tables,
        (Line("others", OTHERS, 0.5, x="draw", y=kind, width=0.8), *lines),
        x=Axis(0.0, last, "draw", link="course"),
        y=Axis(*span),
        rules=(Rule(limit, colour=BAD, words=f"{limit:g}"),),
        title=f"{what} so far (dashed red: {f'{RHAT_LIMIT}' if kind == 'rhat' else '100 per chain'})",
        visible=visible,
        height=RUN_HEIGHT,
        least=320,
    )


def _others(content: Content, chosen: Sequence[str]) -> Table:
    """All series that are not chosen, as one line each, with a gap between them."""
    names = [label for label in content.rhat if label not in chosen][:OTHERS_SHOWN]
    gap = np.array([np.nan])
    pieces: dict[str, list[np.ndarray]] = {"draw": [], "rhat": [], "ess": []}
    for name in names:
        pieces["draw"] += [content.marks.astype(float), gap]
        pieces["rhat"] += [content.rhat[name], gap]
        pieces["ess"] += [content.ess.get(name, np.full(content.marks.size, np.nan)), gap]
    return {key: np.concatenate(value) if value else np.zeros(0) for key, value in pieces.items()}


def running_span(
    series: Mapping[str, np.ndarray], kind: str, limit: float, chosen: Sequence[str]
) -> tuple[float, float]:
    """A range in which the threshold and the newest values can be told apart, whatever the first were. That
    of the ESS fits the `chosen` scalars; far better ones may leave the plot."""
    if kind == "ess":
        shown = [v for n, v in series.items() if n in chosen] or list(series.values())
        return 0.0, 1.15 * max([limit, *(float(np.nanmax(v)) for v in shown if np.isfinite(v).any())])
    late = [line[len(line) // 4 :] for line in series.values()]
    finite = [line[np.isfinite(line)] for line in late]
    top = max([limit + 0.02, *(float(line.max()) for line in finite if line.size)])
    low = min([0.995, *(float(line.min()) for line in finite if line.size)])
    return low, min(top + 0.1 * (top - low), 3.0)
