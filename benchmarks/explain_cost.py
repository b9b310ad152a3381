"""What an explanation costs, and what requests beside it lose.

    python benchmarks/explain_cost.py MODEL --tokens 200 --clients 4

One answer of --tokens tokens is made and then explained with nobody beside it. Then --clients clients answer all the
time, and the explanation is asked for again and again in every second block of --block seconds: the ratio of the
clients' tokens a second, with and without it, and the times to the first token. Blocks are interleaved; the ratio's
interval is over pairs of neighbouring blocks.
"""

from __future__ import annotations

import argparse
import math
import statistics
import threading
import time
from collections.abc import Sequence

from cutaway import Engine, SamplingParams
from cutaway.xray.explanation import explain
from cutaway.xray.known_answer import KnownAnswer

SETTINGS = SamplingParams(temperature=0.8, top_k=40, top_p=0.9, min_p=0.02, repetition_penalty=1.1, ignore_eos=True)
PROMPT = "Write a long story about the sea, a ship, and the people on it. Begin with the weather."


class Client:
    """Answers one request after another. tokens: when each came; waits: when each request began, and its first token's
    time."""

    def __init__(self, engine: Engine, number: int) -> None:
        self.tokens: list[float] = []
        self.waits: list[tuple[float, float]] = []
        self._engine, self._number = engine, number
        self.going = True
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        turn = 0
        while self.going:
            turn += 1
            text = f"{self._number}.{turn} {PROMPT}"
            began = time.perf_counter()
            params = SETTINGS.replace(max_tokens=64, seed=100 * self._number + turn)
            first = True
            for piece in self._engine.stream([{"role": "user", "content": text}], params):
                if piece.token is not None:
                    self.tokens.append(time.perf_counter())
                    if first:
                        self.waits.append((began, time.perf_counter() - began))
                        first = False


def answered(engine: Engine, count: int) -> KnownAnswer:
    prompt = engine.token_ids([{"role": "user", "content": PROMPT}])
    params = SETTINGS.replace(max_tokens=count, seed=7)
    (result,) = engine.generate([prompt], params)
    return KnownAnswer(tuple(prompt), result.token_ids, params, result.seed, 0, result.stop)


def beside(engine: Engine, known: KnownAnswer, clients: int, block: float, pairs: int) -> None:
    runners = [Client(engine, number) for number in range(clients)]
    time.sleep(2 * block)
    marks: list[tuple[float, float, bool]] = []
    done: list[float] = []
    for _ in range(pairs):
        for with_it in (True, False):
            began = time.perf_counter()
            end = began + block
            if with_it:
                stop = lambda end=end: time.perf_counter() >= end  # noqa: E731
                while not stop():
                    try:
                        done.append(explain(engine, known, stopped=stop).milliseconds)
                    except Exception as error:  # the block ended
                        if getattr(error, "code", "") != "explaining":
                            raise
            else:
                time.sleep(block)
            marks.append((began, time.perf_counter(), with_it))
    for runner in runners:
        runner.going = False
    times = sorted(at for runner in runners for at in runner.tokens)
    rates = [sum(a <= at < b for at in times) / (b - a) for a, b, _ in marks]
    ratios = [math.log(rates[i] / rates[i + 1]) for i in range(0, len(rates), 2)]
    middle = statistics.fmean(ratios)
    half = 1.96 * statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.nan
    interval = ", ".join(f"{math.exp(middle + side):.3f}" for side in (-half, half))
    print(f"{clients} clients: {statistics.fmean(rates[1::2]):.1f} tokens/s without, ratio with it "
          f"{math.exp(middle):.3f} [{interval}] over {pairs} pairs of {block:g} s")  # fmt: skip
    for name, wanted in (("without", False), ("with", True)):
        waits = [w for r in runners for at, w in r.waits if any(a <= at < b and on is wanted for a, b, on in marks)]
        print(f"  first token {name}: {spread(waits)}")
    print(f"  explanations finished: {len(done)}" + (f", {statistics.median(done):.0f} ms each" if done else ""))
    for runner in runners:
        runner.thread.join(60)


def spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    if not ordered:
        return "none"
    return f"median {1e3 * ordered[len(ordered) // 2]:.0f} ms, largest {1e3 * ordered[-1]:.0f} ms of {len(ordered)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--block", type=float, default=8.0)
    parser.add_argument("--pairs", type=int, default=6)
    given = parser.parse_args()
    with Engine.load(given.model, context=1024, contexts=4, step_ms=50) as engine:
        began = time.perf_counter()
        known = answered(engine, given.tokens)
        made = (time.perf_counter() - began) * 1e3
        found = [explain(engine, known) for _ in range(3)]
        alone = statistics.median(one.milliseconds for one in found)
        cost = found[-1].cost
        print(f"{given.model}: {given.tokens} tokens answered in {made:.0f} ms, explained in {alone:.0f} ms "
              f"({alone / given.tokens:.1f} a token), {cost.tokens} tokens computed in {cost.milliseconds:.0f} ms "
              f"of steps; findings: {[finding.code for finding in found[-1].findings]}")  # fmt: skip
        if given.clients:
            beside(engine, known, given.clients, given.block, given.pairs)


if __name__ == "__main__":
    main()
