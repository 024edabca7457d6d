"""`Model`: a NumPyro model and its arguments, with every stage of the analysis at hand."""

import hashlib
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from gibbsite import sampling
from gibbsite.conditional import Conditional, conditional_of
from gibbsite.density import Density, Site, build_density
from gibbsite.density.checks import check_data
from gibbsite.errors import ModelError
from gibbsite.graph import DependencyGraph, dependency_graph
from gibbsite.kernels.finite import INPUTS_KWARG
from gibbsite.kernels.plan import Plan
from gibbsite.kernels.schedule import Schedule, make_schedule
from gibbsite.kernels.schedule import Schedule, make_schedule
from gibbsite.sampling import Run


class Model:
    """A NumPyro model bound to its arguments.

    The stages can each be looked at: `tape`, `density`, `graph`, `conditional(site)`, `schedule()`; then
    `sample(…)` runs it and returns a `Run`, and `start(…)` does so in the background. Calling the model runs
    the NumPyro function itself, so a `Model` can stand wherever NumPyro expects a model.
    """

    def __init__(
        self,
        fn: Callable,
        args: tuple = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        source: str | None = None,
        name: str | None = None,
    ):
        self.fn = fn
        self.args = tuple(args)
        self.kwargs = dict(kwargs or {})
        self.name = name or getattr(fn, "__name__", "model")
        self._source = source
        self.density: Density = build_density(fn, self.args, self.kwargs)
        if not self.density.latents:
            raise ModelError(
                f"model {self.name!r} has no latent sites: every `sample` statement is observed, so there is "
                f"nothing to infer. Leave at least one site without `obs=` (or with a value of None)"
            )
        check_data(self.density)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model function, with the bound arguments unless others are given."""
        return self.fn(*args, **kwargs) if args or kwargs else self.fn(*self.args, **self.kwargs)

    @property
    def sites(self) -> Mapping[str, Site]:
        """The model's sites by name, in program order."""
        return MappingProxyType(dict(self.density.sites))

    @property
    def source(self) -> str:
        """The plain NumPyro function that the model stands for."""
        if self._source is not None:
            return self._source
        import inspect

        try:
            return inspect.getsource(self.fn)
        except (OSError, TypeError):
            return f"# the source of {self.name!r} is not available"

    @cached_property
    def graph(self) -> DependencyGraph:
        """The dependency graph: nodes, edges, plates, Markov blankets, independence queries."""
        return dependency_graph(self.density)

    def conditional(self, site: str) -> Conditional:
        """What the latent `site` is drawn from given the rest.

        Raises `UnknownNameError` (a `KeyError`) for a name that does not exist and `ModelError` for a site
        that is not latent.
        """
        return conditional_of(self.density, site)

    # what compiled runs need

    @cached_property
    def runtime_model(self) -> Callable:
        """The model as kernels of a compiled run see it: its data come in as one keyword argument."""
        fn, arguments = self.fn, self.density.arguments

        def model(**kwargs: Any) -> Any:
            args, named = arguments.rebuild(kwargs[INPUTS_KWARG]["data"])
            return fn(*args, **named)

        model.__name__ = self.name
        return model

    @property
    def inputs(self) -> dict[str, Any]:
        """The arrays that a compiled run takes as arguments."""
        return {"data": tuple(self.density.arguments.arrays)}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the model's structure: sites, shapes and program, not the data's values."""
        digest = hashlib.sha256()
        for site in self.density.sites.values():
            row = (site.name, site.shape, str(site.dtype), site.role, site.fn_name, str(site.support))
            digest.update(repr(row).encode())
        digest.update(str(self.density.closed.jaxpr).encode())
        for const in self.density.closed.consts:
            digest.update(np.asarray(jax.device_get(const)).tobytes())
        return digest.hexdigest()[:32]

    @cached_property
    def observed(self) -> dict[str, np.ndarray]:
        """The observed values by site."""
        read = self.density.evaluator({}).full
        atoms = self.density.outputs["observed"].items()
        return {n: np.asarray(read(a)) for n, a in atoms if not self.density.maps.latents(a)}

    def schedule(self, schedule: Any = None, **options: Any) -> Schedule:
        """Which kernel updates which sites, in which order and why; checked against the model.

        `schedule` is text such as `"Gibbs z (*) NUTS [w mu]"`, a list of `update(…)`, or None for the default
        policy; options as for `make_schedule`. Raises `ScheduleError` before anything runs.
        """
        return make_schedule(self, schedule, **options)

    def schedule(self, text: Any = None, *, random_scan: bool = False) -> Schedule:
        """What will run, and why: the default policy, or a schedule as text or as a list of updates.

        Raises `ScheduleError` (a `ValueError`) where it does not parse or does not fit the model.
        """
        return make_schedule(self, text, random_scan=random_scan)

    def plan(self, schedule: Any = None) -> Plan:
        """The model and a schedule, ready to run."""
        return self.schedule(schedule).plan()

    def start(self, *, schedule: Any = None, **options: Any) -> Run:
        """Sample in the background: returns the `Run` at once. Arguments as for `sample`."""
        return sampling.start(self.plan(schedule), **options)

    def sample(self, *, schedule: Any = None, **options: Any) -> Run:
        """Sample and wait for the end.

        `draws` and `warmup` count steps per chain (1000 each), `chains` (4) run side by side, `seed` (0)
        fixes the randomness, `device` says where ("cpu", "gpu", "auto"). The first interrupt ends the run at
        the next chunk and keeps its draws.
        """
        return sampling.sample(self.plan(schedule), **options)

    def __repr__(self) -> str:
        latents = ", ".join(self.density.latents)
        observed = ", ".join(n for n, s in self.sites.items() if s.role == "observed")
        return f"<Model {self.name}: latent {latents}; observed {observed or 'nothing'}>"


def model(fn: Callable, *args: Any, **kwargs: Any) -> Model:
    """Trace and analyse the NumPyro model `fn(*args, **kwargs)` at once.

    Raises `ModelError` where the model cannot be analysed, `DataError` for data that do not fit it, and lets
    exceptions of the model itself pass through.
    """
    source, name = kwargs.pop("_source", None), kwargs.pop("_name", None)
    if isinstance(fn, Model):
        return Model(fn.fn, args or fn.args, kwargs or fn.kwargs, source=source or fn._source, name=name)
    if not callable(fn):
        raise ModelError(f"a model is a function with NumPyro statements; got {type(fn).__name__}")
    return Model(fn, args, kwargs, source=source, name=name)
