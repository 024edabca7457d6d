"""Sites whose distributions are the user's own, and those of them whose draws are not to be trusted.

NumPyro's own samplers take a latent from `log_prob`; a `sample` that only starts chains may give anything
("it is enough to return an arbitrary sample with correct shape", says an example). What draws forward must
not: it is looked at first, where the class is none of NumPyro's.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import numpyro
from numpyro import handlers
from numpyro.infer.initialization import init_to_sample

from gibbsite.density.forward.agrees import disagreement
from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.collect import base_distribution

_STATES = 2


def doubted(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], names: Collection[str]
) -> dict[str, str]:
    """Of the sites `names` of the model `fn(*args, **kwargs)` those whose draws do not follow their log
    density, with what was seen, at some draws of all other sites from their statements."""
    found: dict[str, str] = {}
    for n in range(_STATES):
        key, look = jax.random.split(jax.random.key(n))
        with handlers_alone, numpyro.validation_enabled(False):
            model = handlers.substitute(handlers.seed(fn, key), substitute_fn=init_to_sample)
            traced = handlers.trace(model).get_trace(*args, **kwargs)
            for name in names:
                if name in found or name not in traced:
                    continue
                inner = base_distribution(traced[name]["fn"])
                why = disagreement(inner, jax.random.fold_in(look, len(found)))
                if why:
                    found[name] = f"{type(inner).__name__}: {why}"
    return found
