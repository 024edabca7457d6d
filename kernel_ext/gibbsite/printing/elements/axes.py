"""Functions of whole axes: sums, running sums, products of matrices."""

from typing import Any

import numpy as np

from gibbsite.printing.elements.indices import Index, Span, Sym
from gibbsite.printing.elements.operators import ALONG, ATOM, REDUCTIONS
from gibbsite.printing.elements.printer import Printer
from gibbsite.printing.elements.text import Opaque, Text, shape_of
from gibbsite.printing.statements.notation import call, subscript

Indices = tuple[Index, ...]


def reduction_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    name, (x,) = REDUCTIONS[eqn.primitive.name], eqn.invars
    axes = [a % len(shape_of(x)) for a in eqn.params["axes"]]
    rest = iter(index)
    spans = {a: p.span(shape_of(x)[a]) for a in axes}
    inner = p.write(x, tuple(spans[a] if a in spans else next(rest) for a in range(len(shape_of(x)))))
    gone = {s.tag for s in spans.values()}
    missing = [s for s in spans.values() if s.tag not in inner.tags]
    if missing:
        count = int(np.prod([s.size for s in missing]))
        if name == "sum":
            inner = p.infix("mul", Text(str(count)), inner)
        elif name == "prod":
            inner = p.power(inner, Text(str(count)))
        elif name.startswith("arg"):
            raise Opaque
    here = [k for k, t in enumerate(inner.tags) if t in gone]
    if not here:
        return inner
    kept = tuple(t for t in inner.tags if t not in gone)
    where = f"axis={here[0] if len(here) == 1 else tuple(here)}" if kept else ""
    return Text(p.call(name, [inner], where).text, ATOM, kept)


def along_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    """`cumsum(x)[t]`: a function of an axis, of which one element is read."""
    if len(eqn.invars) != 1 or eqn.params.get("reverse"):
        raise Opaque
    axis = eqn.params.get("axis", eqn.params.get("dimension")) % len(index)
    (x,) = eqn.invars
    span = p.span(shape_of(x)[axis])
    inner = p.write(x, (*index[:axis], span, *index[axis + 1 :]))
    if span.tag not in inner.tags:
        raise Opaque
    name = ALONG[eqn.primitive.name]
    if len(inner.tags) == 1:
        return p.part(call(name, inner.text), (span.size,), (index[axis],))
    here = inner.tags.index(span.tag)
    at = index[axis]
    if (isinstance(at, Sym) and at.tags) or (here != len(inner.tags) - 1 and not isinstance(at, Span)):
        raise Opaque
    called = call(name, f"{inner.text}, axis={here}")
    if isinstance(at, Span):
        if (at.start, at.size, at.step) != (0, span.size, 1):
            raise Opaque
        return Text(called, ATOM, tuple(at.tag if t == span.tag else t for t in inner.tags))
    colons = ", ".join([":"] * here + [p.part("", (span.size,), (at,)).text.strip("[]")])
    return Text(subscript(called, [colons]), ATOM, inner.tags[:here])


def dot_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    (left, right), ((lc, rc), (lb, rb)) = eqn.invars, eqn.params["dimension_numbers"]
    if len(lc) != 1:
        raise Opaque
    size = shape_of(left)[lc[0]]
    shared = p.span(size)
    n = len(lb)
    batch = index[:n]
    rest = iter(index[n:])

    def at(x: Any, contracted: int, batched: tuple[int, ...]) -> Indices:
        return tuple(
            shared if a == contracted else batch[batched.index(a)] if a in batched else next(rest)
            for a in range(len(shape_of(x)))
        )

    a = p.write(left, at(left, lc[0], lb))
    b = p.write(right, at(right, rc[0], rb))
    if size == 1:
        return p.infix("mul", a, b)
    if len(a.tags) not in (1, 2) or len(b.tags) not in (1, 2):
        raise Opaque
    if set(a.tags) & set(b.tags) != {shared.tag}:
        raise Opaque
    if a.tags.index(shared.tag) != len(a.tags) - 1:
        a = Text(p.inside(a, ATOM) + ".T", ATOM, a.tags[::-1])
    if b.tags.index(shared.tag):
        b = Text(p.inside(b, ATOM) + ".T", ATOM, b.tags[::-1])
    return p.product(a, b, shared.tag)


def cholesky_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    """`cholesky(Sigma[k])`, the whole matrix or an element of it."""
    (x,) = eqn.invars
    *lead, i, j = index
    whole = (p.span(shape_of(x)[-2]), p.span(shape_of(x)[-1]))
    inner = p.write(x, (*lead, *whole))
    if len(inner.tags) != 2:
        raise Opaque
    return p.part(call("cholesky", inner.text), shape_of(x)[-2:], (i, j))
