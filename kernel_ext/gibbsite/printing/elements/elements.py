"""How elements are computed from elements: signs, functions, choices."""

from typing import Any

import numpy as np

from gibbsite.printing.elements.constants import Printer
from gibbsite.printing.elements.copies import filled_gather, gathered
from gibbsite.printing.elements.indices import Index, Span, Sym
from gibbsite.printing.elements.text import (
    ALONG,
    ATOM,
    CALLS,
    INFIX,
    REDUCTIONS,
    Opaque,
    Text,
    call,
    shape_of,
    subscript,
)
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import (
    ADDS,
    BELOW,
    CONVERTS,
    COPIES,
    DIVIDES,
    moved_from,
    name_of,
    of_kind,
    of_table,
)

Indices = tuple[Index, ...]


def own(atom: Any, index: Indices) -> Indices:
    """The index of an operand that is broadcast against the output."""
    shape = shape_of(atom)
    return (
        tuple(0 if n == 1 and not _one(i) else i for n, i in zip(shape, index, strict=False)) if shape else ()
    )


def _one(index: Index) -> bool:
    return isinstance(index, Span) and index.size == 1


def elementwise(p: Printer, eqn: Any, index: Indices) -> Text:
    """Signs, functions of elements, and nothing else."""
    name = name_of(eqn)
    if name not in INFIX and name not in CALLS:
        raise Opaque
    texts = [p.write(a, own(a, index)) for a in eqn.invars]
    if name in INFIX:
        return _held(p, eqn, p.infix(name, *texts))
    return p.call(CALLS[name], texts)


def pass_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    return p.write(eqn.invars[0], index)


def neg_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    return _held(p, eqn, p.minus(p.write(eqn.invars[0], index)))


def div_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    """Whole numbers are divided towards zero, which is `//` where neither is negative."""
    texts = [p.write(a, own(a, index)) for a in eqn.invars]
    if np.dtype(atom.aval.dtype).kind not in "iu":
        return _divided_again(p, eqn, index, texts[0]) or p.infix("div", *texts)
    ends = [p.values.bounds(a) for a in eqn.invars]
    if np.dtype(atom.aval.dtype).kind == "u" or all(e is not None and e[0] >= 0 for e in ends):
        return p.infix("floor_div", *texts)
    return p.call("trunc", [p.infix("div", *texts)])


def _divided_again(p: Printer, eqn: Any, index: Indices, numerator: Text) -> Text | None:
    """`m` for `k/(k/m)`: NumPyro turns the mean of counts into a rate, and is asked for the mean again."""
    below = eqn.invars[1]
    made = None if isinstance(below, Literal) else p.producer.get(below)
    if made is None or not of_kind(made, DIVIDES):
        return None
    top, bottom = (p.write(a, own(a, own(below, index))) for a in made.invars)
    return bottom if top == numerator else None


def _held(p: Printer, eqn: Any, text: Text) -> Text:
    """A number as its type holds it: `uint8(g[n] - 1)`, where that may wrap around."""
    return p.call(str(np.dtype(eqn.outvars[0].aval.dtype)), [text]) if p.values.wraps(eqn) else text


def not_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    x = p.write(eqn.invars[0], index)
    return Text("~" + p.inside(x, ATOM), ATOM, x.tags)


def integer_pow_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    return p.power(p.write(eqn.invars[0], index), Text(str(eqn.params["y"])))


def square_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    return p.power(p.write(eqn.invars[0], index), Text("2"))


def pow_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    return p.power(*(p.write(a, own(a, index)) for a in eqn.invars))


def rsqrt_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    return p.infix("div", Text("1"), p.call("sqrt", [p.write(eqn.invars[0], index)]))


def clamp_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    low, x, high = (p.write(a, own(a, index)) for a in eqn.invars)
    return p.call("clip", [x, low, high])


def convert_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    """Widening changes no number; narrowing may, and says so unless the numbers are known to fit."""
    (x,) = eqn.invars
    old, new = np.dtype(x.aval.dtype), np.dtype(eqn.params["new_dtype"])
    inner = p.write(x, index)
    if new.kind == "b" and old.kind != "b":
        return p.infix("ne", inner, Text("0"))
    if new.kind in "iu" and old.kind in "iuf" and not p.as_place:
        ends = p.values.bounds(x)
        info = np.iinfo(new)
        fits = ends is not None and info.min <= ends[0] and ends[1] <= info.max
        if not fits and not np.can_cast(old, new):
            return p.call(new.name, [inner])
    return inner


def select_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    test, *cases = eqn.invars
    if len(cases) == 2 and p.as_place and _is_wrapped(p, test, *cases):
        p.wrapped = True
        return p.write(cases[0], own(cases[0], index))
    if len(cases) == 2 and (found := filled_gather(p, eqn)) is not None:
        return gathered(p, found[0], index, "fill", found[1])
    chosen = p.values.constant(test)
    if chosen is not None and (chosen == chosen.reshape(-1)[0]).all():
        case = cases[int(chosen.reshape(-1)[0])]
        return p.write(case, own(case, index))
    texts = [p.write(a, own(a, index)) for a in cases]
    which = p.write(test, own(test, index))
    if len(cases) == 2:
        return p.choice(which, texts[1], texts[0])
    return p.call("choose", [which, *texts])


def _stripped(p: Printer, atom: Any) -> Any:
    return moved_from(p.producer, atom, CONVERTS, COPIES)


def _is_wrapped(p: Printer, test: Any, plain: Any, wrapped: Any) -> bool:
    """The idiom that turns a negative index into one from the end: NumPy's own reading of it."""
    lt, add = (
        p.producer.get(_stripped(p, a)) if not isinstance(a, Literal) else None for a in (test, wrapped)
    )
    if lt is None or add is None or not (of_kind(lt, BELOW) and of_kind(add, ADDS)):
        return False
    base = _stripped(p, plain)
    return _same(_stripped(p, lt.invars[0]), base) and _same(_stripped(p, add.invars[0]), base)


def _same(a: Any, b: Any) -> bool:
    both = isinstance(a, Literal) and isinstance(b, Literal)
    return bool(np.all(a.val == b.val)) if both else a is b


def cond_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    """Both branches of a choice between two, `where(c == 1, m + 2, -m)`."""
    outs = [b[eqn.outvars.index(atom)] for b in p.branches(eqn)]
    which = eqn.invars[0]
    texts = [p.write(o, index) for o in outs]
    if len(outs) == 2:
        test = _stripped(p, which)
        boolean = np.dtype(test.aval.dtype).kind == "b"
        condition = p.write(test, ())
        return p.choice(condition if boolean else p.infix("gt", condition, Text("0")), texts[1], texts[0])
    return p.call("choose", [p.write(which, ()), *texts])


def reduction_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    name, (x,) = of_table(eqn, REDUCTIONS), eqn.invars
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
    name = of_table(eqn, ALONG)
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
