"""The dashboard on a stream of a million draws: is the browser's memory flat, and how late is what it shows?

    python benchmarks/dashboard_stream.py [draws] [seconds]

A simulated run of four chains goes through `draws` (a million) in `seconds` (120), or as long as it takes;
its draws are made beforehand, so that what is timed is the way from a state to the screen. A kernel shows its
dashboard in a real JupyterLab, in a headless Chromium on the same machine. Printed are, over eighths,

- the page's JavaScript heap after a garbage collection, and its number of elements;
- latency: from the moment in which the kernel begins to gather a state to the first frame painted after the
  page has it; and, which does not depend on what else the machine does, the processor time that a state costs
  the kernel's drawing thread and the page's main thread.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.pages.lab import Lab, chromium, start_server, stop_server  # pyright: ignore[reportMissingImports]
from playwright.sync_api import sync_playwright

SETUP = """
import dataclasses, threading, time
import numpy as np
import gibbsite as gb
from gibbsite.demo import DEMOS
from gibbsite.storage.draws import Chunk
from gibbsite.sampling import Run, Settings
from gibbsite.views import run_dashboard

demo = DEMOS["mixture"]
plan = gb.model(demo.fn, **demo.arguments()).plan()
run = Run(plan, None, Settings(DRAWS, 0, 4, 0))
rng = np.random.default_rng(0)
piece = {n: rng.normal(size=(4096, 4, *s.shape)).astype(np.float32) if not s.discrete
         else rng.integers(0, 3, (4096, 4, *s.shape)) for n, s in plan.sites.items()}
run.kept.sampled.reserve(DRAWS)

began = {}
class Timed(run_dashboard.Dashboard):
    def refresh(self):
        started, cpu = time.time(), time.thread_time()
        super().refresh()
        began[int(self._content.snapshot.draws_done)] = (started, time.thread_time() - cpu)

def stream():
    run._began, run._status = time.monotonic(), "sampling"
    start, done = time.monotonic(), 0
    while done < DRAWS:
        n = min(int(DRAWS * (time.monotonic() - start) / SECONDS), DRAWS) - done
        n = min(n, 4096)
        if n > 0:
            chunk = Chunk({k: v[:n] for k, v in piece.items()}, {})
            values, stats = run.kept.append(chunk, n)
            run._monitor.add(values, stats)
            run._monitor.measure(run.kept)
            run._pace.add(False, n, 0.2)
            done += n
            run._notify()
        time.sleep(0.02)
    run._status = "finished"
    run._notify()
"""
SHOW = """
view = Timed(run)
display(view)
threading.Thread(target=stream, daemon=True).start()
"""
# For each new state the time of the first frame after it, by the number of draws that the page names.
WATCH = """() => {
    globalThis.__seen = []
    const doc = [...globalThis.__gibbsiteDocuments].find(d => d.get_model_by_name('trace0'))
    const text = document.querySelector('.gb-progress')
    new MutationObserver(() => {
        const words = document.querySelector('.gb-progress').textContent.split(' of ')[0]
        const draws = parseInt(words.replace(/\\D/g, ''))
        const painted = () => globalThis.__seen.push([draws, Date.now() / 1000])
        requestAnimationFrame(() => requestAnimationFrame(painted))
    }).observe(text, {childList: true, characterData: true, subtree: true})
}"""


def processor(tools) -> float:
    """Seconds of processor time that the page's main thread has used."""
    found = {m["name"]: m["value"] for m in tools.send("Performance.getMetrics")["metrics"]}
    return found["TaskDuration"]


def main(draws: int = 1_000_000, seconds: int = 120) -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = start_server(Path(folder))
        try:
            options = ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]
            browser = playwright.chromium.launch(executable_path=chromium(), args=options)
            page = browser.new_context(viewport={"width": 1280, "height": 1600}).new_page()
            page.set_default_timeout(120_000)
            lab = Lab(server, page)
            code = SETUP.replace("DRAWS", str(draws)).replace("SECONDS", str(seconds))
            lab.write("stream.ipynb", code, SHOW)
            lab.open("stream.ipynb")
            lab.run_cell(0)
            lab.run_cell(1)
            page.wait_for_function(
                "() => document.querySelector('.gb-progress')?.textContent.includes('draws')"
            )
            page.wait_for_function("() => globalThis.__gibbsiteDocuments?.size > 0")
            page.evaluate(WATCH)
            tools = page.context.new_cdp_session(page)
            tools.send("Performance.enable", {"timeDomain": "threadTicks"})
            print("| draws so far | heap, MB | elements |\n|---|---|---|")
            began, done = processor(tools), 0
            while done < draws:
                until = time.monotonic() + seconds / 8
                while time.monotonic() < until and done < draws:
                    page.wait_for_timeout(200)
                    done = int(lab.python("print(run.kept.sampled.steps)"))
                spent = processor(tools) - began
                states = len(page.evaluate("() => globalThis.__seen"))
                tools.send("HeapProfiler.collectGarbage")
                began = processor(tools) - spent
                heap = page.evaluate("() => performance.memory.usedJSHeapSize") / 1e6
                nodes = page.evaluate("() => document.getElementsByTagName('*').length")
                print(f"| {done} | {heap:.1f} | {nodes} |", flush=True)
            seen = page.evaluate("() => globalThis.__seen")
            began = json.loads(lab.python("import json; print(json.dumps(began))"))
            late = sorted(1000 * (when - began[str(n)][0]) for n, when in seen if str(n) in began)
            own = [1000 * cpu for _, cpu in began.values()]
            half, most = len(own) // 2, late[int(0.95 * len(late))]
            print(
                f"{len(late)} states; latency {statistics.median(late):.0f} ms median, {most:.0f} ms at 95 %"
            )
            print(f"processor time per state: page {1000 * spent / states:.0f} ms; kernel "
                  f"{statistics.median(own[:half]):.0f} ms in the first half of the stream, "
                  f"{statistics.median(own[half:]):.0f} ms in the second")  # fmt: skip
            print("console errors:", lab.errors or "none")
        finally:
            stop_server(server)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
