"""What a `with` statement of JAX's says about the thread it is in, carried to another one.

A run samples in a thread of its own, and JAX's contexts (`jax.enable_x64`, `jax.default_prng_impl`, …) hold
for one thread. What held where the model was made is what its program was traced for."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import jax


@dataclass(frozen=True)
class Surroundings:
    """JAX's settings that decide what a program computes."""

    enable_x64: bool
    default_prng_impl: str
    default_matmul_precision: str | None
    numpy_dtype_promotion: str
    threefry_partitionable: bool = True

    @classmethod
    def here(cls) -> "Surroundings":
        """Those of this thread, now."""
        config: Any = jax.config
        return cls(
            bool(config.jax_enable_x64),
            str(config.jax_default_prng_impl),
            config.jax_default_matmul_precision,
            str(getattr(config.jax_numpy_dtype_promotion, "value", config.jax_numpy_dtype_promotion)),
            bool(getattr(config, "jax_threefry_partitionable", True)),
        )

    def with_numbers_of(self, other: "Surroundings") -> "Surroundings":
        """These, with the types of numbers of `other`: a program is run with those it was traced for."""
        promotion = other.numpy_dtype_promotion
        return replace(self, enable_x64=other.enable_x64, numpy_dtype_promotion=promotion)

    def others(self, saved: Mapping[str, Any]) -> list[str]:
        """Settings that were others when a run was saved: `jax_enable_x64=True (here False)`."""
        now = asdict(self)
        differ = [n for n in now if n in saved and saved[n] != now[n]]
        return [f"jax_{n}={str(saved[n])[:40]} (here {now[n]})" for n in differ]

    @contextmanager
    def carried(self) -> Iterator[None]:
        """Have them hold in this thread."""
        with ExitStack() as stack:
            now = Surroundings.here()
            if now.enable_x64 != self.enable_x64:
                stack.enter_context(jax.enable_x64(self.enable_x64))
            if now.default_prng_impl != self.default_prng_impl:
                stack.enter_context(jax.default_prng_impl(self.default_prng_impl))
            if now.default_matmul_precision != self.default_matmul_precision:
                stack.enter_context(jax.default_matmul_precision(self.default_matmul_precision))
            if now.numpy_dtype_promotion != self.numpy_dtype_promotion:
                stack.enter_context(jax.numpy_dtype_promotion(self.numpy_dtype_promotion))
            if now.threefry_partitionable != self.threefry_partitionable:
                stack.enter_context(jax.threefry_partitionable(self.threefry_partitionable))
            yield
