"""How exact the index maps of each model of the tests are.

    python benchmarks/map_precision.py

An element of a term is exact with respect to a site where the map names as many elements of the site as
really move it: every element of the site is moved in turn, to the values of four other states. The share is a
lower bound: what moves only in a fifth state counts as lost.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
from helpers.models.zoo import ZOO
from helpers.truths.perturbation import moves, predicted, table_reader


def precision(case):
    """Exact pairs of a term's element and a latent site, and all such pairs where the map claims anything."""
    density = gb.model(case.fn, *case.args, **case.kwargs).density
    order = sorted(density.latent_vars)
    real, claimed = {}, {}
    base = case.state(0)
    inputs = [jnp.asarray(base[n], density.sites[n].dtype) for n in order]
    inputs += [jnp.asarray(a) for a in density.arguments.arrays]
    for seed in range(1, 5):
        other = case.state(seed)
        sites = {n: (i, np.asarray(other[n])) for i, n in enumerate(order)}
        found = moves(density.closed, inputs, sites, limit=10_000)
        for move in found:
            read = table_reader(density.maps, move.values[0])
            tables = [read(values) for values in move.values]
            for at, term in enumerate(density.terms):
                key = (at, move.site, move.element)
                claim = np.zeros(term.shape, bool)
                for access in density.maps[term.atom].get(move.site, ()):
                    for known in tables:
                        claim |= predicted(access, term.shape, move.element, known)
                moved = np.asarray(move.real.get(term.atom, np.zeros(term.shape, bool)))
                real[key] = real.get(key, np.zeros(term.shape, bool)) | moved
                claimed[key] = claimed.get(key, np.zeros(term.shape, bool)) | claim
    exact = total = 0
    for at in range(len(density.terms)):
        for site in order:
            keys = [k for k in claimed if k[:2] == (at, site)]
            if not keys:
                continue
            c, r = sum(claimed[k].astype(int) for k in keys), sum(real[k].astype(int) for k in keys)
            total += int((c > 0).sum())
            exact += int(((c > 0) & (c == r)).sum())
    return exact, total


if __name__ == "__main__":
    print("| model | elements of terms × sites | exact |")
    print("|---|---|---|")
    for name in sys.argv[1:] or ZOO:
        exact, total = precision(ZOO[name])
        print(f"| {name} | {total} | {100 * exact / max(total, 1):.0f} % |", flush=True)
