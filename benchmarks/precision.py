"""What of the exact draws holds in single precision, and where: a table against double precision.

    python benchmarks/precision.py [--small]

Covariates lie an offset from zero and have a spread, both in any unit; what is known of a joint draw are its
mean, in standard deviations, its spread in every direction, and what it tells itself (from .2 on, a run is
not called converged). Sums are of a million numbers.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from gibbsite.conditional.draws.polya_gamma import polya_gamma
from gibbsite.conditional.factors.sums import long_product, sum_by
from gibbsite.density.hierarchy.location_scale import of_normal, of_walk
from helpers.claims.in_double import (
    GROUP,
    around,
    energies_of_rows,
    filter_of,
    line,
    lines,
    matrix,
    odds_of_a_switch,
    off,
    there_and_back,
)

RNG = np.random.default_rng(0)
MILLION = 10**6


def smooth(y, tau):
    x = numpyro.sample("x", dist.ImproperUniform(dist.constraints.real_vector, (), (len(y),)))
    numpyro.factor("steps", -0.5 * jnp.sum((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2) / tau**2)
    numpyro.sample("y", dist.Normal(x, 1.0), obs=y)


def joint(told, fn, args, sites):
    """A row of a joint draw."""
    found = off(fn, args, sites)
    low, high = found.any_direction
    row(told, f"{found.mean:.1g}", f"{low:.3f} to {high:.3f}", found.rounding)


def chain(offset, tau, real=np.float32):
    """A row of a smooth chain of 64 places."""
    with jax.enable_x64(real is np.float64):
        _chain(offset, tau, real)


def _chain(offset, tau, real):
    y = (offset + RNG.normal(size=64)).astype(real)
    steps = np.diff(np.eye(64), 2, axis=0) / float(real(tau))
    cov = np.linalg.inv(steps.T @ steps + np.eye(64))
    mean, sd = cov @ y.astype(np.float64), np.sqrt(np.diag(cov))
    model = gb.model(smooth, y, real(tau), check_values=False)
    data, near = tuple(model.density.arguments.arrays), jnp.asarray(mean, real)
    keys = jax.random.split(jax.random.key(0), 20_000)
    found = jax.jit(jax.vmap(lambda k: model.conditional("x").drawn(k, {"x": near}, data)))(keys)
    draws, lost = (np.asarray(v, np.float64) for v in (found.values["x"], found.rounding))
    ratio = draws.std(0) / sd
    told = f"smooth chain of 64, level {offset:g}, steps {tau:g}{' in double' * (real is np.float64)}"
    row(
        told,
        f"{np.max(np.abs(draws.mean(0) - mean) / sd):.1g} *",
        f"{ratio.min():.3f} to {ratio.max():.3f} *",
        lost.max(),
    )


def sums():
    """Rows of sums of a million numbers around 1000, in standard errors of their mean."""
    x = (1000 + RNG.normal(size=MILLION)).astype(np.float32)
    wide = x.astype(np.float64)
    for count in (2, 100):
        group = RNG.integers(count, size=MILLION).astype(np.int32)
        error = np.bincount(group, wide, count)
        each = np.sqrt(np.bincount(group, minlength=count))
        for told, got in (
            ("in parts", jax.jit(sum_by, static_argnums=2)(group, x, count)),
            ("one after another", jax.ops.segment_sum(x, group, count)),
        ):
            lost = np.max(np.abs(np.asarray(got, np.float64) - error) / each)
            row(f"sums of {count} groups of a million around 1000, {told}", f"{lost:.2g}", "", None)
    ones = np.stack([np.ones_like(x), x])
    for told, got in (("in parts", long_product(ones, x)), ("one after another", jnp.matmul(ones, x))):
        lost = np.max(np.abs(np.asarray(got, np.float64) - ones @ wide) / (ones @ wide))
        row(f"products with a vector of a million, {told}", f"{lost:.1g} of themselves", "", None)


def odds():
    """Rows of what many rows add up to: log odds of a switch, energies and their slopes."""
    for rows in (10**4, MILLION):
        given, summed = (odds_of_a_switch(rows, labels) for labels in (False, True))
        row(f"log odds of a switch of {rows:g} rows", f"{given:.1g} nats", "", None)
        row("the same, a label of each row summed out", f"{summed:.1g} nats", "", None)
        spread, slope = energies_of_rows(rows)
        row(f"log density of {rows:g} rows; its gradient", f"{spread:.1g} nats; {slope:.0e} sd", "", None)


def filters():
    """Rows of chains of discrete states that are summed out."""
    for steps, outlying in ((10**3, 0.0), (10**5, 0.0), (10**3, 30.0)):
        lost, wrong = filter_of(steps, outlying)
        far = f", data {outlying:g} sd from all states" if outlying else ""
        told = f"odds of a level, {steps:g} steps of two states summed out{far}; their probabilities"
        row(told, f"{lost:.1g} nats; {wrong:.0e}", "", None)


def whitened():
    """Rows of coordinates in which a site's elements are independent a priori, there and back."""
    for steps in (10**3, 10**5):
        lost = there_and_back(of_walk, {"scale": 0.1}, (steps,))
        row(f"coordinates of a random walk of {steps:g}, there and back", f"{lost:.1g}", "", None)
    at = np.linspace(0, 1, 50)
    for length in (0.02, 0.1, 0.5):
        cov = np.exp(-0.5 * ((at[:, None] - at) / length) ** 2) + 1e-6 * np.eye(50)
        lost = there_and_back(of_normal, {"loc": np.zeros(50), "scale_tril": np.linalg.cholesky(cov)}, (50,))
        told = f"of a vector of 50 with a covariance of condition {np.linalg.cond(cov):.0e}"
        row(told, f"{lost:.1g}", "", None)


def variates():
    """Rows of Pólya-gamma variates: their mean in standard deviations, of 400,000, whose error is .0016."""
    for shape, tilt in ((1.0, 0.0), (1.0, 1e6), (1e3, 1.0), (1e6, 0.0), (1e6, 1e3)):
        many = jnp.full(400_000, shape, jnp.float32)
        draws = np.asarray(jax.jit(polya_gamma)(jax.random.key(1), many, jnp.float32(tilt)), np.float64)
        mean = shape / (2 * tilt) * np.tanh(tilt / 2) if tilt else shape / 4
        sd = np.sqrt(shape / (4 * tilt**3) * _sinh_ratio(tilt) if tilt else shape / 24)
        off_by, ratio = abs(draws.mean() - mean) / sd, draws.std() / sd
        row(f"Pólya-gamma, shape {shape:g}, tilt {tilt:g}", f"{off_by:.1g} *", f"{ratio:.3f} *", None)


def _sinh_ratio(tilt):
    """`(sinh c - c) / cosh²(c / 2)`, which tends to 2."""
    return (np.sinh(tilt) - tilt) / np.cosh(tilt / 2) ** 2 if tilt < 50 else 2.0


def row(told, mean, spread, lost):
    print(f"| {told} | {mean} | {spread} | {'' if lost is None else f'{lost:.1g}'} |", flush=True)


def main():
    small = "--small" in sys.argv
    print("| draw | mean off by, sd | spread, in any direction | it tells |\n|---|---|---|---|")
    for offset in (1e2, 1e6) if small else (0.0, 1e2, 1e3, 1e4, 1e5, 1e6):
        joint(f"`a + b * x`, x {offset:g} spreads from zero", line, around(RNG, offset), ("a", "b"))
    units = () if small else ((1e9, 1e6), (1e3, 1e0), (1e3, 1e-2), (2e-3, 1e-6), (1e9, 1e5), (1.0, 1e-6))
    for offset, spread in units:
        args = around(RNG, offset, spread)
        joint(f"`a + b * x`, x {offset:g} ± {spread:g}", line, args, ("a", "b"))
    if not small:
        years = np.repeat([2018.0, 2019.0, 2020.0], 10)
        joint(
            "`a + b * year`, 2018 to 2020",
            line,
            (years, 0.2 * (years - 2019) + 0.1 * RNG.normal(size=30)),
            ("a", "b"),
        )
        design = np.c_[np.ones(30), years, RNG.normal(size=30)]
        joint("`X @ b` with a column of years", matrix, (design, 0.1 * RNG.normal(size=30)), ("b",))
        for offset in (0.0, 2018.0, 1e5):
            x = offset + np.repeat(np.arange(5.0), 12)
            args = (x, 0.2 * (x - offset) + 0.1 * RNG.normal(size=60), GROUP)
            joint(f"12 lines `a[g] + b[g] * x`, x from {offset:g}", lines, args, ("m", "k", "a", "b"))
        for level in (0.0, 1e3, 1e5):
            chain(level, 0.1)
        for tau in (1e-2, 4e-3, 1e-3, 1e-4, 1e-5):
            chain(0.0, tau)
        chain(1e3, 1e-3)
        for tau in (1e-3, 1e-4):
            chain(0.0, tau, np.float64)
        odds()
        filters()
        whitened()
        variates()
    sums()


if __name__ == "__main__":
    main()
