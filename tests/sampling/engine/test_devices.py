"""Several devices, and double precision: settings of a process, so each test starts its own."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.errors import CheckpointError, OptionError
from gibbsite.sampling.engine import resources
from helpers import TESTS
from helpers.models.sampling_models import (
    COINS_IN_PARTS,
    SCHOOLS,
    SCHOOLS_IN_PARTS,
    coins,
    data,
    mixed,
    rates,
)
from helpers.readers.committed import committed

DEVICES = """
import json, sys
sys.path[:0] = {paths!r}
import conftest
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
from helpers.models.sampling_models import coins, data, rates
import gibbsite as gb

model = gb.model(rates, np.arange(6.0), np.ones(6))
options = dict(draws=20, warmup=20, chains=4, seed=1, schedule="RandomWalk a")
whole = model.sample(**options, device="cpu:all")
stop = lambda r: r.stop() if r.snapshot().draws_done >= 5 else None
asked = dict(**options, device="cpu:all", chunk=7, store=sys.argv[1] + "/chains")
part = model.sample(**asked, on_start=lambda r: r.subscribe(stop))
back = gb.load(sys.argv[1] + "/chains", model=model, device="cpu:all").resume()
one = model.sample(**options, device="cpu:1")
with jax.default_device(jax.devices()[2]):
    there = model.sample(**options)
a = whole.draws["a"]
chains = dict(
    there=[there.device, *(f"{{d.platform}}:{{d.id}}" for d in jax.tree.leaves(there._state)[0].devices())],
    status=part.status,
    device=whole.device,
    devices=[len(leaf.sharding.device_set) for leaf in jax.tree.leaves(whole._state)],
    same=all(np.array_equal(whole.draws[n], back.draws[n]) for n in whole.draws),
    differ=len(np.unique(a[:, -1])),
    close=float(np.abs(one.draws["a"] - a).max()),
    where=[f"{{d.platform}}:{{d.id}}" for d in jax.tree.leaves(one._state)[0].devices()],
    dtype=str(a.dtype),
    fine=bool((a != a.astype(np.float32)).any()),
)

model = gb.model(coins, data())
options = dict(draws=20, warmup=20, chains=2, seed=1, schedule="Gibbs z (*) Conjugate w (*) RandomWalk p")
one = model.sample(**options)
many = model.sample(**options, shard="n")
stop = lambda r: r.stop() if r.snapshot().draws_done >= 5 else None
asked = dict(**options, shard="auto", chunk=3, store=sys.argv[1] + "/data")
part = model.sample(**asked, on_start=lambda r: r.subscribe(stop))
back = gb.load(sys.argv[1] + "/data", model=model).resume()
z = many._state.z["z"]
leaves = jax.tree.leaves(many._engine.placed(many._plan.inputs, by_chain=False))
try:
    unknown = str(model.start(**options, shard="m"))
except gb.GibbsiteError as error:
    unknown = str(error)
shards = dict(
    device=many.device,
    z=[str(z.sharding.spec), [list(s.data.shape) for s in z.addressable_shards]],
    data=[len(v.sharding.device_set) for v in leaves],
    rows=[list(v.addressable_shards[0].data.shape) for v in leaves],
    discrete=bool((one.draws["z"] == many.draws["z"]).all()),
    close=float(np.abs(one.draws["p"] - many.draws["p"]).max()),
    same=all(np.array_equal(many.draws[n], back.draws[n]) for n in many.draws),
    status=part.status,
    unknown=unknown,
)
print(json.dumps(dict(chains=chains, shards=shards)))
"""

HOSTS = """
import json, sys
sys.path[:0] = {paths!r}
import conftest
import jax
place, number, address = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jax.distributed.initialize(address, num_processes=2, process_id=number)
import numpy as np
from helpers.models.sampling_models import rates
import gibbsite as gb
model = gb.model(rates, np.arange(6, dtype=np.float32), np.ones(6, np.float32))
options = dict(warmup=40, seed=1, schedule="RandomWalk a")
try:
    model.start(draws=10, chains=3, **options)
except gb.GibbsiteError as error:
    odd = str(error)
run = model.sample(draws=10, chains=4, store=place, **options)
here = [len(jax.devices()), len(jax.local_devices()), run.draws["a"].shape[0]]
run = gb.load(place, model=model).resume(draws=10 + 5 * number)
print(json.dumps(dict(odd=odd, here=here, steps=run.draws["a"].shape[1])))
"""

# hosts of two devices each that make one run: a plate over all four, and chains over two groups of two
TOGETHER = """
import json, os, shutil, signal, sys, threading, time
sys.path[:0] = {paths!r}
import conftest
import jax
place, number, address = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jax.distributed.initialize(address, num_processes=2, process_id=number)
import numpy as np
from helpers.models.sampling_models import COINS_IN_PARTS, SCHOOLS, SCHOOLS_IN_PARTS, coins, data, mixed
import gibbsite as gb
model = gb.model(coins, data())
try:
    model.start(**COINS_IN_PARTS, shard="n:5")
except gb.GibbsiteError as error:
    odd = str(error)
plate = model.sample(**COINS_IN_PARTS, shard="n")
asked = dict(**COINS_IN_PARTS, shard="n:2", chunk=3, store=f"{{place}}/grid")
stop = lambda r: r.stop() if number == 1 and r.snapshot().draws_done >= 5 else None  # on one of them
part = model.sample(**asked, on_start=lambda r: r.subscribe(stop))
steps = part.kept.steps
grid = model.sample(**asked, resume="auto")
def interrupted(run):
    if number == 0:
        threading.Thread(target=wait_and_press, args=[run], daemon=True).start()
def wait_and_press(run):
    while run.kept.steps < 22:
        time.sleep(.005)
    os.kill(os.getpid(), signal.SIGINT)
asked_more = asked | dict(draws=20_000, store=f"{{place}}/pressed")
pressed = model.sample(**asked_more, on_start=interrupted)
if number == 1:  # its folder was another than the first one's, and is lost
    shutil.rmtree(f"{{place}}/grid/host1")
try:
    model.sample(**asked, resume="auto")
except gb.GibbsiteError as error:
    lost = str(error)
pooled = gb.model(mixed, SCHOOLS).sample(**SCHOOLS_IN_PARTS, shard="j")
scale = [np.asarray(b.tuning.metric.scale) for b in pooled._state.block_states if hasattr(b, "tuning")]
np.savez(f"{{place}}/{{number}}.npz", plate=plate.draws["p"], grid=grid.draws["p"], z=grid.draws["z"],
         pooled=pooled.draws["mu"], scale=scale[0])
rows = jax.tree.leaves(plate._engine.placed(plate._plan.inputs, by_chain=False))
print(json.dumps(dict(odd=odd, lost=lost, devices=[plate.device, grid.device], stopped=[part.status, steps],
                      pressed=[pressed.status, pressed.kept.steps],
                      rows=[list(v.addressable_shards[0].data.shape) for v in rows])))
"""

LOST = """
import sys
sys.path[:0] = {paths!r}
import conftest
import jax
place, number, address = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jax.distributed.initialize(address, num_processes=2, process_id=number, heartbeat_timeout_seconds=10)
from helpers.models.sampling_models import COINS_IN_PARTS, coins, data
import gibbsite as gb
asked = COINS_IN_PARTS | dict(draws=1_000_000, shard="n", chunk=20, store=f"{{place}}/lost")
gb.model(coins, data()).sample(**asked)
"""


def said(program, *arguments, **variables):
    program = program.format(paths=[str(TESTS)])
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def free_address():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return f"localhost:{free.getsockname()[1]}"


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    """What a process of four devices and double precision says."""
    folder = tmp_path_factory.mktemp("devices")
    return said(DEVICES, folder, XLA_FLAGS="--xla_force_host_platform_device_count=4")


@pytest.mark.slow
def test_chains_are_dealt_out_over_devices(devices):
    found = devices["chains"]
    assert "4 chains over 4 of 4 devices" in found["device"]
    assert set(found["devices"]) == {4}
    assert found["status"] == "stopped" and found["same"]
    assert found["differ"] == 4
    assert found["close"] < 1e-9  # the same chains as on one device, but for rounding
    assert found["where"] == ["cpu:1"]
    assert "as jax.default_device says" in found["there"][0] and found["there"][1:] == ["cpu:2"]


@pytest.mark.slow
def test_hosts_share_the_chains_and_are_joined(tmp_path):
    address = free_address()
    with ThreadPoolExecutor(2) as hosts:
        found = list(hosts.map(lambda k: said(HOSTS, tmp_path, k, address), range(2)))
    for k, host in enumerate(found):
        assert "3 do not divide over the 2 hosts" in host["odd"]
        assert host["here"] == [2, 1, 2] and host["steps"] == 20 + 5 * k
    with pytest.warns(UserWarning, match=r"hosts \[0\] .* have 20 draws per chain, others up to 25"):
        tree = gb.joined(tmp_path)
    a = tree["posterior"]["a"]
    assert list(tree["posterior"].chain) == list(tree["sample_stats"].chain) == [0, 1, 2, 3]
    assert a.shape[:2] == (4, 20) and "chain" not in tree["observed_data"].dims
    model = gb.model(rates, np.arange(6, dtype=np.float32), np.ones(6, np.float32))
    one = model.sample(draws=20, warmup=40, chains=4, seed=1, schedule="RandomWalk a")
    assert np.abs(one.draws["a"] - a.values).max() < 1e-3  # the same chains, but for rounding
    with pytest.raises(CheckpointError, match=r"several hosts.*one of host0, host1"):
        gb.load(tmp_path)
    shutil.rmtree(tmp_path / "host1")
    with pytest.raises(CheckpointError, match="2 of 4 chains"):
        gb.joined(tmp_path)
    with pytest.raises(CheckpointError, match="no runs of several hosts"):
        gb.joined(tmp_path / "host0")


@pytest.mark.slow
def test_hosts_share_a_plate_and_make_one_run(tmp_path):
    """The draws of one process, on both; what one is told, both do; windows of warm-up are pooled."""
    with ThreadPoolExecutor(2) as hosts:
        address = free_address()
        flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
        found = list(hosts.map(lambda k: said(TOGETHER, tmp_path, k, address, **flags), range(2)))
    here, there = (dict(np.load(tmp_path / f"{k}.npz")) for k in range(2))
    for name, draws in here.items():
        np.testing.assert_array_equal(draws, there[name])
    for host in found:
        assert "12 elements of plate 'n' do not divide into 5 parts over 4 cpu devices; n:4" in host["odd"]
        assert "plate 'n' in 4 parts of 3, of 2 hosts" in host["devices"][0]
        assert "in 2 parts of 6, 2 chains over 2 such groups of devices, of 2 hosts" in host["devices"][1]
        assert host["stopped"] == ["stopped", found[0]["stopped"][1]] and 25 <= host["stopped"][1] < 40
        assert host["pressed"] == ["stopped", found[0]["pressed"][1]] and 22 <= host["pressed"][1] < 20_000
        assert [3] in host["rows"]
        assert "numbers of steps, [40, 0] (0: a host without the run" in host["lost"]
    one = gb.model(coins, data()).sample(**COINS_IN_PARTS)
    np.testing.assert_array_equal(here["z"], one.draws["z"])
    for name in ("plate", "grid"):
        np.testing.assert_allclose(here[name], one.draws["p"], atol=1e-5)
    alone = gb.model(mixed, SCHOOLS).sample(**SCHOOLS_IN_PARTS)
    np.testing.assert_allclose(here["pooled"], alone.draws["mu"], atol=0.05)  # rounding grows
    assert (here["scale"] == here["scale"][:1]).all() and (here["scale"] != 1).any()
    tree = gb.joined(tmp_path / "grid")  # of which each has a copy
    np.testing.assert_array_equal(tree["posterior"]["p"].values, here["grid"])
    # a copy goes on without the others
    with pytest.warns(UserWarning, match="begun with shard='n:2', .* goes on with one device"):
        left = gb.load(tmp_path / "pressed" / "host1", model=gb.model(coins, data()))
    drawn = left.draws["p"].shape[1]
    left.resume(5)
    assert left.status == "finished" and left.draws["p"].shape[1] == drawn + 5
    whole = gb.model(coins, data()).sample(**COINS_IN_PARTS | {"draws": drawn + 5})
    np.testing.assert_allclose(left.draws["p"], whole.draws["p"], atol=1e-5)


@pytest.mark.slow
def test_what_hosts_had_drawn_in_common_outlives_one(tmp_path):
    """One is killed, JAX ends the other; either's copy goes on from its last commit, on this machine."""
    address, folders = free_address(), [tmp_path / "lost" / f"host{k}" for k in range(2)]
    program = LOST.format(paths=[str(TESTS)])
    hosts = [
        subprocess.Popen([sys.executable, "-c", program, tmp_path, str(k), address], stderr=subprocess.PIPE)
        for k in range(2)
    ]
    try:
        while any(committed(folder) < 100 for folder in folders):
            assert all(host.poll() is None for host in hosts)
        hosts[1].kill()
        assert hosts[1].wait() == -signal.SIGKILL
        assert hosts[0].wait(120) != 0
    finally:
        for host in hosts:
            host.kill()
            host.communicate()
    one = gb.model(coins, data()).sample(**COINS_IN_PARTS | {"draws": 100 - COINS_IN_PARTS["warmup"]})
    for folder in folders:
        with pytest.warns(UserWarning, match="begun with shard='n', .* goes on with one device"):
            left = gb.load(folder, model=gb.model(coins, data()))
        drawn = left.draws["p"].shape[1]
        left.resume(10)
        assert left.status == "finished" and left.draws["p"].shape[1] == drawn + 10
        np.testing.assert_allclose(left.draws["p"][:, : one.draws["p"].shape[1]], one.draws["p"], atol=1e-5)


@pytest.mark.slow
def test_data_are_sharded_within_chains(devices):
    found = devices["shards"]
    assert "plate 'n' in 4 parts of 3" in found["device"]
    assert found["z"] == ["P(None, 'data')", [[2, 3]] * 4]
    assert set(found["data"]) == {4} and [3] in found["rows"]
    # The same random numbers and the same terms, summed in another order.
    assert found["discrete"] and 0 <= found["close"] < 1e-9
    assert found["status"] == "stopped" and found["same"]
    assert "no plate named 'm'" in found["unknown"]


@pytest.mark.parametrize(
    ("size", "devices", "parts"), [(12, 4, 4), (12, 5, 4), (919, 4, 1), (10, 1, 1), (9, 4, 3)]
)
def test_a_plate_is_shared_evenly(monkeypatch, size, devices, parts):
    site = SimpleNamespace(shape=(size, 2), plates=("n",), plate_axes=(0,), dtype=np.dtype("f4"))
    plan = SimpleNamespace(sites={"z": site}, observed_sites={}, observed={}, groups={})
    found = [SimpleNamespace(platform="cpu", id=i) for i in range(devices)]
    monkeypatch.setattr(resources.jax, "local_devices", lambda backend=None: found)
    if parts == 1:
        with pytest.raises(OptionError, match=f"{size} elements of plate 'n' do not divide over {devices}"):
            resources.choose_shards("n", None, plan)  # type: ignore[arg-type]
        place = resources.choose_shards("auto", None, plan)  # type: ignore[arg-type]
        assert place.shard is None and "nothing is sharded" in place.reason
    else:
        place = resources.choose_shards("n", "cpu", plan)  # type: ignore[arg-type]
        assert (len(place.devices), place.shard) == (parts, size)
        assert place == resources.choose_shards("auto", "auto", plan)  # type: ignore[arg-type]


@pytest.mark.slow
def test_double_precision(devices):
    assert devices["chains"]["dtype"] == "float64" and devices["chains"]["fine"]
