"""Gaussians whose precision is an arrow: many small groups, a dense rest that couples them, a border.

The groups are eliminated one by one, each with a Cholesky factor of its own size, then the rest (Rue and Held
2005, "Gaussian Markov random fields", §2.4). The border is eliminated last of all, by its precision given
nothing of the others, which the caller forms as a sum of squared residuals: a difference of two large numbers
would lose in single precision what a mean and its effects have in common (see `rows`).
"""

from typing import Any, NamedTuple

from gibbsite.conditional.factors.root import Again, Root, empty, rooted
from gibbsite.conditional.factors.sums import exact_product


class Vector(NamedTuple):
    """One number, or a row of them on a last axis, per element: groups `[n, w]`, the rest `[m]`, the border
    `[p]`."""

    groups: Any
    rest: Any
    border: Any


class Arrow(NamedTuple):
    """A factorised precision without its border: `factor`, the roots `[n, w, w]` of the groups, `link`
    `[n, w, m]`, what a step of the rest moves the groups by, and `rest` `[m, m]`, the root of the rest given
    nothing of the groups."""

    factor: Root
    link: Any
    rest: Root

    def solve(self, groups: Any, rest: Any) -> tuple[Any, Any]:
        """The precision's inverse times `groups` `[n, w, k]` and `rest` `[m, k]`."""
        inner = self.factor.backward(self.factor.forward(groups)) if self.factor.lower.size else groups
        if not self.rest.lower.size:
            return inner, rest
        n, w, m = self.link.shape
        flat = exact_product(self.link.reshape(n * w, m).T, groups.reshape(n * w, -1))
        outer = self.rest.backward(self.rest.forward(rest - flat))
        return inner - exact_product(self.link, outer), outer

    def noise(self, groups: Any, rest: Any) -> tuple[Any, Any]:
        """A draw with mean zero from standard Normal numbers, shapes as in `solve`."""
        inner = self.factor.backward(groups) if self.factor.lower.size else groups
        if not self.rest.lower.size:
            return inner, rest
        outer = self.rest.backward(rest)
        return inner - exact_product(self.link, outer), outer

    @property
    def half_log_det(self) -> Any:
        """Half the logarithm of the determinant of the precision."""
        return self.factor.half_log_det + self.rest.half_log_det


def arrow(groups: Any, link: Any, rest: Any, again: Again | None, differentiable: bool = False) -> Arrow:
    """Factorise a precision: `groups` `[n, w, w]`, `rest` `[m, m]`, and `link` `[n, w, m]` between them;
    `again`, if there is need, forms the groups' part in another basis; see `rooted`."""
    factor = rooted(groups, again, differentiable) if groups.size else empty()
    if not rest.size:
        return Arrow(factor, link, empty())
    if not groups.size:
        return Arrow(factor, link, rooted(rest))
    half = factor.forward(link)
    n, w, m = half.shape
    flat = half.reshape(n * w, m)
    return Arrow(factor, factor.backward(half), rooted(rest - exact_product(flat.T, flat)))


class Bordered(NamedTuple):
    """A factorised precision: `inner`, what a step of the border moves the others by (`groups` `[n, w, p]`,
    `rest` `[m, p]`), and `border` `[p, p]`, the border's root given nothing of the others."""

    inner: Arrow
    groups: Any
    rest: Any
    border: Root

    def solve(self, b: Vector) -> Vector:
        """The precision's inverse times a vector."""
        groups, rest = self.inner.solve(b.groups[..., None], b.rest[..., None])
        return self._moved(Vector(groups[..., 0], rest[..., 0], self._border(b)))

    def _border(self, b: Vector) -> Any:
        if not self.border.lower.size:
            return b.border
        p = b.border.shape[0]
        seen = exact_product(b.groups.reshape(-1), self.groups.reshape(-1, p))
        left = b.border - seen - exact_product(b.rest, self.rest)
        return self.border.backward(self.border.forward(left[:, None]))[:, 0]

    def _moved(self, x: Vector) -> Vector:
        if not self.border.lower.size:
            return x
        groups = x.groups - exact_product(self.groups, x.border)
        return Vector(groups, x.rest - exact_product(self.rest, x.border), x.border)

    def noise(self, z: Vector) -> Vector:
        """A draw with mean zero, from standard Normal numbers."""
        groups, rest = self.inner.noise(z.groups[..., None], z.rest[..., None])
        border = self.border.backward(z.border[:, None])[:, 0] if self.border.lower.size else z.border
        return self._moved(Vector(groups[..., 0], rest[..., 0], border))

    @property
    def half_log_det(self) -> Any:
        """Half the logarithm of the determinant of the precision."""
        return self.inner.half_log_det + self.border.half_log_det

    def rounding(self, x: Vector) -> Any:
        """The square of what a vector loses by being held as it is, in standard deviations."""
        inner = self.inner.factor.rounding(x.groups) + self.inner.rest.rounding(x.rest)
        return inner + self.border.rounding(x.border)
