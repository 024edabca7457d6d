"""Several devices, and double precision: settings of a process, so each test starts its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

SHARDED = """
import json, sys
sys.path[:0] = {paths!r}
import conftest
import numpy as np
from sampling_model import rates
import gibbsite as gb
import jax
model = gb.model(rates, np.arange(6, dtype=np.float32), np.ones(6, np.float32))
options = dict(draws=20, warmup=40, chains=4, seed=1, schedule="NUTS a")
whole = model.sample(**options, device="cpu:all")
part = model.start(**options, device="cpu:all", chunk=7, store=sys.argv[1])
part.subscribe(lambda r: r.stop() if r.snapshot().draws_done >= 5 else None)
part.wait()
back = gb.load(sys.argv[1], model=model, device="cpu:all").resume()
one = model.sample(**options, device="cpu:1")
print(json.dumps(dict(
    status=part.status,
    device=whole.device,
    devices=[len(leaf.sharding.device_set) for leaf in jax.tree.leaves(whole._state)],
    same=all(np.array_equal(whole.draws[n], back.draws[n]) for n in whole.draws),
    differ=len(np.unique(whole.draws["a"][:, -1])),
    close=float(np.abs(one.draws["a"] - whole.draws["a"]).max()),
    where=[f"{{d.platform}}:{{d.id}}" for d in jax.tree.leaves(one._state)[0].devices()],
)))
"""

DOUBLE = """
import json, sys
sys.path[:0] = {paths!r}
import conftest
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
from sampling_model import rates
import gibbsite as gb
run = gb.model(rates, np.arange(6.0), np.ones(6)).sample(draws=20, warmup=20, chains=2, schedule="NUTS a")
a = run.draws["a"]
print(json.dumps(dict(dtype=str(a.dtype), fine=bool((a != a.astype(np.float32)).any()))))
"""


def said(program, *arguments, **variables):
    tests = Path(__file__).parent
    program = program.format(paths=[str(tests.parent), str(tests)])
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_chains_are_dealt_out_over_devices(tmp_path):
    found = said(SHARDED, tmp_path / "run", XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert "4 chains over 2 of 2 devices" in found["device"]
    assert set(found["devices"]) == {2}
    assert found["status"] == "stopped" and found["same"]
    assert found["differ"] == 4
    assert found["close"] < 1e-3  # the same chains as on one device, but for rounding
    assert found["where"] == ["cpu:1"]


def test_double_precision():
    found = said(DOUBLE)
    assert found == {"dtype": "float64", "fine": True}
    assert np.dtype(found["dtype"]).itemsize == 8
