"""AugurV2's hierarchical logistic regression on German credit: HMC in a run against NumPyro's own HMC.

    python benchmarks/augur_hlr.py --data FOLDER --rounds 7

FOLDER holds `german_credit_numeric.csv` (UCI's Statlog German credit, numeric form: 24 columns, the class).
Both sides run the same HMC, of ten leapfrog steps whose size and metric are adapted in warm-up, and are timed
as in `nuts_numpyro.py`. AugurV2 (Huang, Tristan, Morrisett 2017, §7) was about a quarter slower than Stan.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import HMC
from nuts_numpyro import HEAD, compared, ours, theirs

STEPS, DRAWS = 10, 4000


def hlr(x: Any, y: Any) -> None:
    variance = numpyro.sample("variance", dist.Exponential(1.0))
    b = numpyro.sample("b", dist.Normal(0.0, jnp.sqrt(variance)))
    theta = numpyro.sample("theta", dist.Normal(0.0, jnp.sqrt(variance)).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("loan", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=x @ theta + b), obs=y)


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--data", type=Path, required=True, help="folder with the table")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    file = options.data / "german_credit_numeric.csv"
    rows = np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.float32)
    x = (rows[:, :-1] - rows[:, :-1].mean(axis=0)) / rows[:, :-1].std(axis=0)
    args = (x, (rows[:, -1] == rows[:, -1].max()).astype(np.int32))
    same = partial(HMC, num_steps=STEPS, trajectory_length=None)
    sides = (ours(hlr, args, DRAWS, f"HMC(num_steps={STEPS})"), theirs(hlr, args, DRAWS, same))
    print(HEAD)
    print(compared(f"HLR, German credit, HMC of {STEPS} steps", sides, options.rounds))


if __name__ == "__main__":
    main()
