"""A conditional as a line: `p(z[n] | w, mu, x) ∝ Categorical(z[n] | w) · Normal(x[n] | mu[z[n]], 1)`."""

from collections.abc import Sequence

from gibbsite.density import Density
from gibbsite.density.maps.access import Affine
from gibbsite.density.notation.notation import TEXT, Notation
from gibbsite.density.notation.statement import LETTERS, element_index, factor_text


def _letters_of(density: Density, origin: str, name: str, index: tuple[str, ...]) -> tuple[str, ...]:
    """Index letters of a factor beside those of the site `name`: shared where the axes are aligned."""
    own = element_index(density, origin)
    if origin == name:
        return index
    shared: dict[int, str] = {}
    for term, accesses in density.terms_of(name):
        if term.origin != origin or len(term.shape) < len(own):
            continue
        for access in accesses:
            for letter, c in zip(index, access.index, strict=False):
                if isinstance(c, Affine) and len(c.axes) == 1 and c.coefs[c.axes[0]] == 1:
                    shared[c.axes[0]] = letter
    free = (c for c in LETTERS if c not in index and c not in own and c not in density.sites)
    return tuple(
        shared[a] if a in shared else (next(free) if c in index and not c.isdigit() else c)
        for a, c in enumerate(own)
    )


def conditional_text(
    density: Density, name: str, origins: Sequence[str], given: Sequence[str], notation: Notation = TEXT
) -> str:
    """`p(site | blanket) ∝ product of the factors that touch it`."""
    index = element_index(density, name)
    left = notation.subscript(notation.name(name), index)
    parts = []
    for origin in origins:
        letters = _letters_of(density, origin, name, index) if origin in density.sites else ()
        extra = [i for i in dict.fromkeys(letters) if i not in index and not i.isdigit()]
        parts.append(notation.product(extra) + factor_text(density, origin, notation, letters))
    names = ", ".join(map(notation.name, given))
    head = f"p({left}{notation.given}{names})" if given else f"p({left})"
    return head + notation.proportional + notation.times.join(parts)
