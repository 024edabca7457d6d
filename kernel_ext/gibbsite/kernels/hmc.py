"""NumPyro's HMC whose target acceptance is an input of the compiled program."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from numpyro.infer import HMC

from gibbsite.kernels.blocks.finite import INPUTS_KWARG

_USUAL = 0.8


class _Aim:
    """Stands for the acceptance that is aimed at where NumPyro, which keeps it from `init` on, subtracts from
    it: the one of the program that is traced now."""

    now: Any = _USUAL

    def __sub__(self, accept_prob: Any) -> Any:
        return self.now - accept_prob


class AimedHMC(HMC):
    """`numpyro.infer.HMC` that reads what acceptance to aim at from the compiled program's inputs, where it
    is called `argument` (NaN: .8): others need no other program."""

    def __init__(self, model: Any, argument: str, **options: Any):
        self._argument = argument
        self._aim: Any = _Aim()
        super().__init__(model, target_accept_prob=self._aim, **options)

    def _look(self, model_kwargs: Mapping[str, Any] | None) -> None:
        asked = (model_kwargs or {}).get(INPUTS_KWARG, {}).get("options", {}).get(self._argument)
        self._aim.now = _USUAL if asked is None else jnp.where(jnp.isnan(asked), _USUAL, asked)

    def init(
        self,
        rng_key: Any,
        num_warmup: int,
        init_params: Any = None,
        model_args: tuple[Any, ...] = (),
        model_kwargs: Any = None,
    ) -> Any:
        """As NumPyro's."""
        self._look(model_kwargs)
        return super().init(rng_key, num_warmup, init_params, model_args, model_kwargs or {})

    def sample(self, state: Any, model_args: Any, model_kwargs: Any) -> Any:
        """As NumPyro's."""
        self._look(model_kwargs)
        return super().sample(state, model_args, model_kwargs)
