"""Models that no run can sample as they are: drawn from outside of them, or on a sphere."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.known_elements import draws_within
from gibbsite.density.model.collect import run_model
from gibbsite.errors import ModelError
from gibbsite.validation.words import at_line


def random_state() -> tuple[Any, ...]:
    """Where the random numbers of NumPy and Python that have no generator of their own are."""
    state: Any = np.random.get_state()
    return state[1].tobytes(), state[2], state[3], random.getstate()


def other_each_time(
    before: tuple[Any, ...], fn: Callable, args: tuple, kwargs: dict[str, Any]
) -> Iterator[str]:
    """A sentence where a model takes random numbers that are not NumPyro's, and others each time: `before` is
    the state before it was looked through."""
    after = random_state()
    if after == before:
        return
    run_model(fn, args, kwargs, {})
    if random_state() != after:  # a model that seeds them has the same numbers each time
        yield (
            "this model takes numbers from np.random or Python's random, others whenever it is run: its "
            "draws are of the model that the first of them made. Make such numbers before, and pass them as "
            "an argument, or sample them"
        )


def drawn_within(density: Density) -> Iterator[str]:
    """A sentence where a model draws by NumPyro's key beside its statements: the same number for every draw
    of a run."""
    if draws_within(density):
        yield (
            "this model draws random numbers that no run knows of (numpyro.prng_key(), or a `sample` that "
            "`handlers.block` hides): one draw stands for the whole run. Sample them by statements that are "
            "seen, or make them before and pass them as an argument"
        )


def check_spheres(density: Density) -> None:
    """Refuse latents on a sphere, which no kernel moves on; raises `ModelError`."""
    for name in density.latents:
        site = density.sites[name]
        if site.support is constraints.sphere:
            raise ModelError(
                f"{name!r}{at_line(site)} is drawn on a sphere, on which no kernel moves. {site.fn_name} is "
                f"a normal vector divided by its length: sample that, or wrap the model: numpyro.handlers."
                f"reparam(config={{{name!r}: numpyro.infer.reparam.ProjectedNormalReparam()}})"
            ).at(site.line)
