"""What the dashboard costs the sampling process: one run with it and without, interleaved, in one kernel.

    python benchmarks/dashboard_cost.py [pairs] [draws] [check]

With `check`, both runs of a pair have a dashboard, and one of them shows its view of predictive checks.

Prints wall and processor seconds of the kernel (medians over the pairs), the processor time of the drawing
thread as a share of the run's wall time, updates, bytes per update, and the time from executing a cell to the
first plotted draw. No browser is attached: what it draws with is not the kernel's time.
"""

import json
import sys

from jupyter_client.manager import start_new_kernel

SETUP = """
import json, statistics, time
import gibbsite as gb
from gibbsite.demo import DEMOS
from gibbsite.views.run_dashboard import Dashboard
from IPython.display import display
demo = DEMOS["mixture"]
"""
# As a person sees it: define the model, sample, look; nothing compiled before.
FIRST = """
began = time.perf_counter()
model = gb.model(demo.fn, **demo.arguments())
defined = time.perf_counter()
run = model.start(draws=DRAWS, warmup=demo.warmup, chains=4, seed=0)
view = Dashboard(run)
display(view)
while not view.content.parameters:
    time.sleep(0.005)
first = time.perf_counter()
compiled = run.snapshot().compile_seconds
run.wait()
print(json.dumps({"model": defined - began, "compile": compiled, "first_plotted_draw": first - began}))
"""
PAIR = """
def once(seed, watched):
    wall, cpu = time.perf_counter(), time.process_time()
    run = model.start(draws=DRAWS, warmup=demo.warmup, chains=4, seed=seed)
    view = None
    if watched or CHECK:
        view = Dashboard(run)
        display(view)
    if watched and CHECK:
        view.widget._control._receive(None, {"kind": "view", "view": "check"}, [])
    run.wait()
    out = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    if view is not None:
        out |= {"updates": view.updates, "thread": view.seconds, "bytes": view.widget.bytes_sent}
        out |= {"replicates": view._panel.replicating}
        view.close()
    return out
rows = []
for seed in range(PAIRS):
    order = (True, False) if seed % 2 else (False, True)
    rows += [{"watched": watched} | once(seed, watched) for watched in order]
print(json.dumps(rows))
"""


def main(pairs: int = 5, draws: int = 20_000, check: bool = False) -> None:
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        asked = {"DRAWS": draws, "PAIRS": pairs, "CHECK": check}
        out = []
        for code in (SETUP, FIRST, PAIR):
            for name, value in asked.items():
                code = code.replace(name, str(value))
            out.append(_run(client, code))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    first, rows = json.loads(out[1]), json.loads(out[2])
    on = [row for row in rows if row["watched"]]
    off = [row for row in rows if not row["watched"]]
    print(f"first run: model {first['model']:.2f} s, compile {first['compile']:.2f} s, "
          f"cell to first plotted draw {first['first_plotted_draw']:.2f} s")  # fmt: skip
    for name in ("wall", "cpu"):
        a, b = _median(row[name] for row in on), _median(row[name] for row in off)
        print(f"{name}: {a:.2f} s with, {b:.2f} s without: {100 * (a / b - 1):+.1f} %")
    shares = [100 * row["thread"] / row["wall"] for row in on]
    print(f"drawing thread: {_median(shares):.2f} % of the wall time (largest {max(shares):.2f} %)")
    if check:
        for rows_of, told in ((on, "with"), (off, "without")):
            drawn, made = (_median(100 * r[n] / r["cpu"] for r in rows_of) for n in ("thread", "replicates"))
            print(
                f"of the processor time, {told} checks: drawing thread {drawn:.2f} %, replicates {made:.2f} %"
            )
    per_update = [row["bytes"] / max(row["updates"], 1) for row in on]
    print(
        f"{_median(row['updates'] for row in on):.0f} updates a run, {_median(per_update) / 1000:.0f} kB each"
    )


def _median(values) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def _run(client, code: str) -> str:
    printed = []

    def hear(message) -> None:
        if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
            printed.append(message["content"]["text"])
        if message["msg_type"] == "error":
            raise RuntimeError("\n".join(message["content"]["traceback"]))

    client.execute_interactive(code, timeout=7200, output_hook=hear)
    return "".join(printed).strip()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), check=sys.argv[3:] == ["check"])
