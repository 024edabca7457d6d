"""A `numpyro.param` without a value of its own."""

from gibbsite.errors import ModelError


class LooseParam(ModelError):
    """A model has a `numpyro.param` that nothing fixes."""

    @classmethod
    def of(cls, name: str) -> "LooseParam":
        """The error of the one of that name."""
        return cls(
            f"{name!r} is a `numpyro.param` that the density reads: MCMC has no values for it, it is for "
            f"optimisation. Use a prior instead (`numpyro.sample`), or fix it: "
            f"`numpyro.handlers.substitute(model, data={{{name!r}: …}})`"
        )
