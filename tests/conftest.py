"""Settings that every test shares."""

from pathlib import Path

import jax

ROOT = Path(__file__).parent.parent

# Compiled programs outlive a test session in a git-ignored folder: most of a suite's time is XLA's.
jax.config.update("jax_compilation_cache_dir", str(ROOT / ".jax_cache"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
jax.config.update("jax_enable_x64", False)
