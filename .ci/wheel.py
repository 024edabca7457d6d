"""The wheel and the source distribution, each installed into an environment of its own and used there.

    python .ci/wheel.py [FOLDER]

Builds both below FOLDER (`.versions/wheel` unless given), installs each into a fresh virtual environment of
this Python, and there: `pip check`, the kernel spec, one model sampled, and twenty lines of a user's code
through pyright.
"""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
USERS_CODE = """\
import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist


def heights(y: np.ndarray, group: np.ndarray) -> None:
    mu = numpyro.sample("mu", dist.Normal(170, 20))
    tau = numpyro.sample("tau", dist.HalfNormal(10))
    with numpyro.plate("group", 3):
        a = numpyro.sample("a", dist.Normal(mu, tau))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(jnp.asarray(a)[group], 5.0), obs=jnp.asarray(y))


group = np.arange(60) % 3
y = np.random.default_rng(0).normal(np.array([165.0, 170.0, 175.0])[group], 5.0)
run = gb.model(heights, y, group).sample(draws=1000, chains=4, seed=0)
means: np.ndarray = run.draws["a"].mean(axis=(0, 1))
if not run.verdict.ok or abs(means - np.array([165.0, 170.0, 175.0])).max() > 4:
    raise SystemExit(f"{run.verdict}: {means}")
print(f"gibbsite {gb.__version__}: {run.verdict}")
"""


SLIP = USERS_CODE.replace("chains=4", "chaines=4")


def called(*command: str | Path, where: Path) -> None:
    print("+", *command, flush=True)
    subprocess.run(list(map(str, command)), cwd=where, check=True)


def tried(built: Path, folder: Path) -> None:
    """Install one distribution into `folder` and use it there."""
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"
    called(python, "-m", "pip", "install", "-q", built, "pyright[nodejs]", where=folder)
    called(python, "-m", "pip", "check", where=folder)
    if not (folder / "share/jupyter/kernels/gibbsite/kernel.json").exists():
        sys.exit(f"{built.name}: no kernel spec")
    pages = "from gibbsite.diagnostics.verdict.advice import ERRORS, sections; sections(), sections(ERRORS)"
    called(python, "-c", pages, where=folder)
    (folder / "users.py").write_text(USERS_CODE)
    # the repository's own settings, found above this folder, would have pyright read its sources
    (folder / "pyrightconfig.json").write_text("{}")
    called(python, "-W", "error::DeprecationWarning:gibbsite", "users.py", where=folder)
    called(folder / "bin" / "pyright", "--pythonpath", python, "users.py", where=folder)
    (folder / "slip.py").write_text(SLIP)
    typed = [str(folder / "bin" / "pyright"), "--pythonpath", str(python), "slip.py"]
    told = subprocess.run(typed, cwd=folder, capture_output=True, text=True)
    if told.returncode != 1 or 'No parameter named "chaines"' not in told.stdout:
        sys.exit(f"{built.name}: the slip `chaines=4` passes pyright\n{told.stdout}")
    print(*(line for line in told.stdout.splitlines() if "chaines" in line))


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    tools, built = folder / "tools", folder / "built"
    venv.create(tools, with_pip=True)
    called(tools / "bin" / "python", "-m", "pip", "install", "-q", "build", where=folder)
    called(tools / "bin" / "python", "-m", "build", "--outdir", built, ROOT, where=folder)
    for path in sorted(built.iterdir()):
        tried(path, folder / path.suffix.strip("."))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".versions" / "wheel").resolve())
