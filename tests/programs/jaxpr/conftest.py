"""The cache of compiled programs, for a test alone."""

import jax
import pytest
from gibbsite.programs.jaxpr import kept
from gibbsite.programs.jaxpr.kept import VARIABLE
from jax.experimental.compilation_cache import compilation_cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The cache of a test, without JAX's own, which tests use elsewhere and which would be enough."""
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    kept._default.cache_clear()
    yield tmp_path / "cache"
    kept._default.cache_clear()
    jax.config.update("jax_compilation_cache_dir", before)
    compilation_cache.reset_cache()
