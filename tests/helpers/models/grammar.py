"""Random NumPyro models as programs: Hypothesis draws the parts, and shrinks what fails to the shortest.

A `Program` is source text and its arguments. Its models have one real site or vector (`mu`), perhaps a scale,
perhaps a discrete site, read through every kind of index, in a plate, a loop or a scan, masked or weighted.
"""

import textwrap
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from numpyro import handlers
from numpyro.contrib.control_flow import scan

CALM: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
FIND_AND_SHRINK = (Phase.explicit, Phase.generate, Phase.shrink)
"""Settings of Hypothesis for programs: models take their time."""

PRIORS = {
    "real": [
        "dist.Normal(0.3, 2.0)",
        "dist.TruncatedNormal(0.0, 1.5, low=-1.0)",
        "dist.Uniform(-2.0, 2.5)",
        "dist.Laplace(0.0, 1.0)",
        "dist.ImproperUniform(dist.constraints.real, (), ())",
        "dist.Delta(0.7)",
    ],
    "positive": [
        "dist.Gamma(2.5, 1.5)",
        "dist.Exponential(1.0)",
        "dist.InverseGamma(3.0, 2.0)",
        "dist.HalfNormal(1.0)",
    ],
    "unit": ["dist.Beta(2.0, 3.0)", "dist.Uniform(0.0, 1.0)"],
}
INDICES = [
    "{a}[{i}]",
    "{a}.at[{i}].get(mode='fill', fill_value=0.0)",
    "{a}.at[{i}].get(mode='clip')",
    "jnp.take({a}, {i}, mode='clip')",
    "jnp.take({a}, {i}, mode='wrap')",
    "jnp.stack([{a}[0], {a}[1], {a}[2]])[{i}]",
]
PADDINGS = ["[True, True, False]", "[True, False, False]", "keep[0]"]
PADDED = "mu = numpyro.sample('mu', {prior}.expand([3]))"
DTYPES = ["int8", "uint8", "int16", "int32"]


@dataclass(frozen=True)
class Program:
    """A model's text with its arguments: observations, an index array, a mask."""

    source: str
    x: Any
    g: Any
    keep: Any

    @property
    def args(self) -> tuple:
        return self.x, self.g, self.keep

    def model(self) -> Any:
        """The function that the text defines."""
        env = {
            "jnp": jnp,
            "np": np,
            "jax": jax,
            "numpyro": numpyro,
            "dist": dist,
            "handlers": handlers,
            "scan": scan,
        }
        exec(compile(self.source, "<model>", "exec"), env)
        return env["model"]

    def __repr__(self) -> str:
        data = f"x = {self.x!r}\ng = {self.g!r}\nkeep = {self.keep!r}"
        return f"\n{self.source}\n{data}\n"


@st.composite
def programs(draw: Any) -> Program:
    """A small model and its data."""
    n = draw(st.integers(2, 4))
    g = np.array(draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)), draw(st.sampled_from(DTYPES)))
    keep = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    support = draw(st.sampled_from(["real", "real", "positive", "unit"]))
    prior = draw(st.sampled_from(PRIORS[support]))
    lines = [f"mu = numpyro.sample('mu', {prior}.expand([3]).to_event(1))"]
    if draw(st.integers(0, 5)) == 0:
        lines = [f"with handlers.mask(mask=jnp.array({draw(st.sampled_from(PADDINGS))})):", f"    {PADDED}"]
        lines[1] = lines[1].format(prior=prior)
    if draw(st.integers(0, 9)) == 0:
        return _ragged(lines, n, g, keep)
    discrete = draw(st.sampled_from(["none", "plate", "plate", "chain", "loop"]))
    index = draw(st.sampled_from(["g", "g - 1", "g + 1", "2 * g"]))
    if discrete == "plate":
        index = draw(st.sampled_from(["z", "z", "z + 1", "(z + g) % 3", "2 - z", "z * g"]))
    elif discrete != "none":
        index = "z"
    read = draw(st.sampled_from(INDICES)).format(a="mu", i=index)
    shape = draw(st.sampled_from(["{r}", "{r} + 1.0", "2.0 * {r} - 1.0", "{r} * jnp.arange(1.0, LEN + 1)"]))
    if discrete == "plate":
        where = "jnp.where(z == 1, {r}, 0.5)", "((z == 1) & (g > 0)) * {r} + 0.5"
        shape = draw(st.sampled_from([shape, *where]))
    value = shape.format(r=read).replace("LEN", str(n) if discrete in ("none", "plate") else "1")
    if discrete == "loop":
        value = value.replace("jnp.arange(1.0, 1 + 1)", "2.0")
    if discrete == "chain":
        value = value.replace("jnp.arange(1.0, 1 + 1)", "2.0")
    likelihood, x = draw(_likelihoods(support, n))
    likelihood = likelihood.format(v=value)
    weight = draw(st.sampled_from(["", "handlers.mask(mask=keep), ", "handlers.scale(scale=0.5), "]))
    if discrete in ("none", "plate"):
        lines.append(f"with {weight}numpyro.plate('n', {n}):")
        if discrete == "plate":
            lines.append("    z = numpyro.sample('z', dist.Categorical(jnp.array([0.2, 0.3, 0.5])))")
        lines.append(f"    numpyro.sample('x', {likelihood}, obs=x)")
    elif discrete == "loop":
        lines.append("z = 0")
        lines.append(f"for t in range({n}):")
        lines.append("    z = numpyro.sample(f'z[{t}]', dist.Categorical(ROWS[z]))")
        lines.append(f"    numpyro.sample(f'x[{{t}}]', {likelihood}, obs=x[t])")
    else:
        lines += [
            "def step(z, x_t):",
            "    z = numpyro.sample('z', dist.Categorical(ROWS[z]))",
            f"    numpyro.sample('x', {likelihood}, obs=x_t)",
            "    return z, None",
            "scan(step, 0, x)",
        ]
    head = "ROWS = jnp.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]])\n\n"
    body = textwrap.indent("\n".join(lines), "    ")
    return Program(f"{head}def model(x, g, keep):\n{body}\n", x, g, keep)


def _ragged(lines: list[str], n: int, g: np.ndarray, keep: np.ndarray) -> Program:
    """Rows of unequal length, padded to three with what no one measured."""
    x = np.where(np.arange(3) < (g % 4)[:, None], 0.3 * np.arange(3) - 0.4, 99.0)
    lines += [
        f"with numpyro.plate('n', {n}, dim=-2), numpyro.plate('k', 3, dim=-1):",
        "    with handlers.mask(mask=jnp.arange(3) < (g % 4)[:, None]):",
        "        numpyro.sample('x', dist.Normal(mu, 1.5), obs=x)",
    ]
    return Program(f"def model(x, g, keep):\n{textwrap.indent(chr(10).join(lines), '    ')}\n", x, g, keep)


@st.composite
def _likelihoods(draw: Any, support: str, n: int) -> tuple[str, np.ndarray]:
    real = np.round(np.array(draw(st.lists(st.floats(-2, 2, width=32), min_size=n, max_size=n))), 2)
    counts = np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    choices: list[tuple[str, np.ndarray]] = [("dist.Normal({v}, 1.5)", real)]
    if support == "positive":
        choices += [
            ("dist.Poisson(jnp.abs({v}) + 0.0)", counts),
            ("dist.Normal(0.0, jnp.abs({v}) + 0.1)", real),
        ]
    if support == "unit":
        choices += [("dist.Normal(1.0, 0.3 + ({v}) ** 2)", real)]
    return draw(st.sampled_from(choices))
