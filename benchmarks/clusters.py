"""One run on 4 to 10,000 workers: what a chunk waits for, by a simulation with measured times.

    python benchmarks/clusters.py [--small] [--home MS MS]

Measured here: how many more gradients a chunk of one chain takes than another's (eight schools by NUTS, 500
steps), and the processor time that a piece and a chunk cost the one process that sends them and takes them in
(a process pool; all of its threads), unless `--home` says them, in milliseconds.
Simulated, event by event: workers of different speeds, of which one in fifty is ten times slower, which die
once an hour on average; one in five of those says nothing, the others are noticed after ten seconds; a new
one takes the place of each after a minute, and compiles. A worker takes what has waited longest. The home
process sends, and takes in, one piece after another; a chunk ends with its last piece; what is late is sent
again by the rule of `gibbsite.sampling.remote.pieces`. Told is the share of all workers' time in which a
piece was stepped that counted. Warm-up's windows end with a chunk, whose last piece they wait for: it is the
same for both.
"""

import argparse
import heapq
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import gibbsite as gb
import numpy as np
from gibbsite.sampling.remote import engine, pieces
from store_cost import schools

CHUNKS, MOST = 60, engine.MOST_PIECES
SLOW, SLOWER, DEATHS, SILENT = 0.02, 10.0, 1 / 3600, 0.2
NOTICED, REPLACED, COMPILING = 10.0, 60.0, 6.0


@dataclass(frozen=True)
class Costs:
    """Gradients of pieces over their median; processor seconds at home for a piece and a chunk."""

    spread: np.ndarray
    piece: float
    chunk: float


def measured(sizes: tuple[int, ...], chunk: int, home: list[float] | None) -> Costs:
    """By runs of so many chains, each a piece; `home` where what pieces and chunks cost there is known."""
    y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    model = gb.model(schools, y, np.array([15.0, 10, 16, 11, 9, 11, 10, 18]))
    schedule, spent, kept = "NUTS [mu tau theta]", [], engine.RemoteEngine.landed
    long = model.sample(draws=5000, warmup=500, chains=16, schedule=schedule).to_datatree()
    steps = long["sample_stats"]["n_steps"].values.reshape(16, 10, 500).sum(axis=2).ravel()
    spread = steps / np.median(steps)
    if home is not None:
        return Costs(spread, home[0] / 1e3, home[1] / 1e3)

    def landed(self, parts):
        found = kept(self, parts)
        spent.append(time.process_time())
        return found

    engine.RemoteEngine.landed, engine.MOST_PIECES = landed, max(sizes)
    cost = {}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for chains in sizes:
            spent.clear()
            model.sample(draws=12 * chunk, warmup=100, chains=chains, chunk=chunk, schedule=schedule, on=pool)
            cost[chains] = float(np.median(np.diff(spent)[-10:]))
    each, fixed = np.polyfit(list(cost), list(cost.values()), 1)
    print("processor ms at home for a chunk, by pieces:", {n: round(1e3 * c, 1) for n, c in cost.items()})
    return Costs(spread, max(float(each), 1e-6), max(float(fixed), 1e-4))


@dataclass
class Told:
    """What became of it."""

    useful: float = 0.0
    seconds: float = 0.0
    home: float = 0.0
    again: int = 0
    longest: float = 0.0


def simulated(
    workers: int, most: int, late: tuple[float, float], costs: Costs, aim: float, seed: int = 0
) -> Told:
    """`CHUNKS` chunks of as many chains as workers, in `most` pieces at most, which take `aim` seconds.

    `late`: factors after which pieces are sent again: no worker is known to be idle, or one is."""
    rng = np.random.default_rng(seed)
    count = min(workers, most)
    each = -(-workers // count)  # chains of a piece
    speed = np.exp(rng.normal(0, 0.1, workers)) * np.where(rng.random(workers) < SLOW, SLOWER, 1.0)
    known = np.zeros(workers, bool)
    life = rng.exponential(1 / DEATHS, workers)
    idle, queue = deque(rng.permutation(workers)), deque()
    now, told, events, number = 0.0, Told(), [], 0
    took: deque = deque(maxlen=64)

    def at(when, kind, *rest):
        nonlocal number
        number += 1
        heapq.heappush(events, (when, number, kind, rest))

    def begin(when):
        while queue and idle:
            w, (chunk, piece, length) = idle.popleft(), queue.popleft()
            lasts = length * speed[w] + (0 if known[w] else COMPILING)
            known[w] = True
            if life[w] < when + lasts:
                if rng.random() > SILENT:
                    at(max(when, life[w]) + NOTICED, "lost", chunk, piece, length)
                at(max(when, life[w]) + REPLACED, "new", w)
            else:
                at(when + lasts, "done", w, chunk, piece, length * speed[w])

    free = 0.0  # when the home process is
    for chunk in range(CHUNKS):
        began, left, heard, answered, times = now, {}, now, set(), {}
        free = max(free, now)
        for piece in range(count):
            free += costs.piece / 2
            length = aim * float(rng.choice(costs.spread, each).max())
            left[piece], times[piece] = length, 1
            at(free, "sent", chunk, piece, length)
        heard = free
        while left:
            factor = late[len(left) < len(answered)]
            patience = factor * max(1.0, float(np.median(took))) if took else np.inf
            if all(times[p] == pieces.TRIES for p in left):
                patience = np.inf
            if events and events[0][0] <= max(heard + patience, now):
                now, _, kind, rest = heapq.heappop(events)
            elif np.isfinite(patience) and any(times[p] < pieces.TRIES for p in left):
                now = heard + patience
                late_ones = {p: n for p, n in left.items() if times[p] < pieces.TRIES}
                told.again += len(late_ones)
                for piece, length in late_ones.items():
                    times[piece] += 1
                    free = max(free, now) + costs.piece / 2
                    at(free, "sent", chunk, piece, length)
                heard = free
                continue
            else:  # nobody will ever answer: a run that waits for all waits for ever
                return Told(seconds=np.inf)
            if kind == "sent":
                queue.append(rest)
            elif kind == "new":
                w = rest[0]
                known[w], life[w] = False, now + rng.exponential(1 / DEATHS)
                idle.append(w)
            elif kind == "lost" and rest[0] == chunk and rest[1] in left:
                queue.append(rest)
            elif kind == "done":
                w, of, piece, seconds = rest
                idle.append(w)
                if of == chunk and piece in left:
                    free = max(free, now) + costs.piece / 2
                    told.useful += left.pop(piece)
                    heard = now
                    answered.add(w)
                    took.append(seconds)
            begin(now)
        free = max(free, now) + costs.chunk
        told.home += count * costs.piece + costs.chunk
        now = free
        told.longest = max(told.longest, now - began) if chunk else 0.0
    told.seconds = now
    return told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--home", nargs=2, type=float, metavar="MS")
    asked = parser.parse_args()
    small = asked.small
    costs = measured((4, 8) if small else (16, 64, 256), 20, asked.home)
    q = np.quantile(costs.spread, [0.05, 0.95, 0.99])
    print(f"a piece over the median: {q[0]:.2f} to {q[1]:.2f} (5, 95 %), {q[2]:.2f} (99 %)")
    print(f"home: {1e3 * costs.piece:.2f} ms a piece, {1e3 * costs.chunk:.1f} ms a chunk\n")
    ours = pieces.LATE, pieces.IDLE
    never = np.inf, np.inf
    print("| workers | what is late | pieces, s | done | home busy | longest chunk, s | sent again |")
    print("|---|---|---|---|---|---|---|")
    for workers in (4, 16) if small else (4, 16, 64, 256, 1024, 4096, 10_000):
        for name, late, most in (
            ("is waited for", never, MOST),
            ("is sent again", ours, 64),
            ("is sent again", ours, MOST),
        ):
            count = min(workers, most)
            if most == 64 and workers <= 64:
                continue
            aim = max(1.0, count / 100)
            told = simulated(workers, most, late, costs, aim)
            if not np.isfinite(told.seconds):
                print(f"| {workers} | {name} | {count}, {aim:.0f} | never ends | | | |")
                continue
            share = told.useful / (told.seconds * workers)
            print(
                f"| {workers} | {name} | {count}, {aim:.0f} | {100 * share:.3g} % "
                f"| {100 * told.home / told.seconds:.0f} % | {told.longest:.0f} | {told.again} |"
            )
    print("\n| late, idle | 16 workers: done | sent again | 64 workers | again | 256 workers | again |")
    print("|---|---|---|---|---|---|---|")
    for late in ((1.0, 1.0), (1.5, 1.0), (3.0, 1.0), (3.0, 2.0), (3.0, 3.0), (10.0, 10.0)):
        row = []
        for workers in (16, 64, 256):
            found = [simulated(workers, 64, late, costs, 1.0, seed) for seed in range(1 if small else 5)]
            share = np.mean([t.useful / (t.seconds * workers) for t in found])
            row.append(f"{100 * share:.0f} % | {np.mean([t.again for t in found]):.0f}")
        print(f"| {late[0]:g}, {late[1]:g} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
