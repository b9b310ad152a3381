"""Tokens a second beside busy processes: ours with two threads, with one and with as many as it chooses, by turns.

    python benchmarks/busy.py                       one stream, 0 to 4 busy processes of the same session
    python benchmarks/busy.py --neighbour stream --where session     neighbours that read memory, in other sessions
    python benchmarks/busy.py --work streams        16 streams; or prompt, or mixed (15 streams and a chunk of a prompt)
    python benchmarks/busy.py --pair                two of ours at once, the sum of their rates
    python benchmarks/busy.py --changes 20          what comes right after neighbours begin or end

Every subject is a process of its own that waits for its turn, so all meet the same neighbours. Figures are medians over
rounds; the last column is the automatic number's rate over that of the better fixed one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.bench.subject import Settings, Subject
from cutaway.cli.loading import model_on_disk
from cutaway.formats import open_model
from cutaway.ops.protocol import Step

NEIGHBOURS = {
    "compute": "while True: pass",
    "stream": "import numpy; a = numpy.ones(1 << 25)\nwhile True: a += 1",
}
CONTROL_GROUPS = Path("/sys/fs/cgroup/cpu")  # version 1; of version 2: the folder above
GRACE = 0.3  # seconds after a change of load that do not count, or two steps


# --- a subject, in a process of its own
def works(subject: Subject) -> dict[str, Step]:
    chunk, streams = subject.prompt(128, stream=15)[0], subject.decoding(128, 15)
    tokens = np.concatenate((streams.tokens, chunk.tokens))
    positions = np.concatenate((streams.positions, chunk.positions))
    requests = np.concatenate((streams.request_of, chunk.request_of))
    mixed = Step(tokens, positions, requests, streams.page_tables, streams.rows)
    return {
        "decode": subject.decoding(128, 1), "streams": subject.decoding(128, 16), "prompt": subject.prompt(512)[0],
        "mixed": mixed,
    }  # fmt: skip


def serve(model: str, threads: int, adapts: bool) -> None:
    """Answers lines 'WORK SECONDS' with the ends of its steps, by the machine's monotonic clock, and their tokens."""
    settings = Settings(context=1024, streams=16, threads=threads, adapts=adapts)
    subject = Subject.load(model, open_model(model_on_disk(model).path), settings)
    steps = works(subject)
    print("ready", flush=True)
    for line in sys.stdin:
        work, seconds = line.split()
        step, ends = steps[work], [time.monotonic()]
        while ends[-1] < ends[0] + float(seconds):
            subject.run(step)
            ends.append(time.monotonic())
        print(json.dumps({"ends": ends, "tokens": len(step.tokens)}), flush=True)


class Process:
    def __init__(self, model: str, threads: int, adapts: bool) -> None:
        command = [sys.executable, __file__, "--serve", model, str(threads), str(int(adapts))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._answer() == "ready\n"

    def start(self, work: str, seconds: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{work} {seconds}\n")
        self._process.stdin.flush()

    def finish(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._answer())
        return answer

    def rate(self, work: str, seconds: float) -> float:
        self.start(work, seconds)
        return rate(self.finish())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def rate(answer: dict[str, Any], since: float = 0.0) -> float:
    """Tokens a second of the steps that end after that time."""
    ends = [e for e in answer["ends"] if e >= since]
    return answer["tokens"] * (len(ends) - 1) / (ends[-1] - ends[0]) if len(ends) > 1 else 0.0


# --- neighbours
@contextmanager
def neighbours(count: int, kind: str, where: str) -> Iterator[None]:
    """Busy processes of ordinary priority. where: the "same" session, a "session" or a control "group" of their own."""
    group = CONTROL_GROUPS / f"busy-{os.getpid()}"
    if where == "group":
        group.mkdir(exist_ok=True)
    command = [sys.executable, "-c", NEIGHBOURS[kind]]
    all = [subprocess.Popen(command, start_new_session=where != "same") for _ in range(count)]
    try:
        if where == "group":
            for process in all:
                (group / "cgroup.procs").write_text(str(process.pid))
        yield
    finally:
        for process in all:
            process.kill()
            process.wait()
        if where == "group":
            time.sleep(0.1)
            group.rmdir()


# --- tables
def table(subjects: dict[str, Process], o: argparse.Namespace) -> None:
    print(f"| busy processes ({o.neighbour}, {o.where}) | " + " | ".join(subjects) + " | automatic / better fixed |")
    print("|---|" + "---|" * (len(subjects) + 1))
    for count in o.busy:
        rates: dict[str, list[float]] = {name: [] for name in subjects}
        with neighbours(count, o.neighbour, o.where):
            time.sleep(0.5)
            for _ in range(o.rounds):
                for name in random.sample(list(subjects), len(subjects)):
                    subjects[name].rate(o.work, 0.3)
                    rates[name].append(subjects[name].rate(o.work, o.seconds))
        middle = {name: statistics.median(r) for name, r in rates.items()}
        share = middle["automatic"] / max(r for name, r in middle.items() if name != "automatic")
        cells = [f"{middle[n]:.1f} ({min(r):.1f}–{max(r):.1f})" for n, r in rates.items()]
        print(f"| {count} | " + " | ".join(cells) + f" | {share:.0%} |", flush=True)


def pair(o: argparse.Namespace) -> None:
    """Two of ours at once: the sum of their rates, for each kind."""
    print("| two at once | sum of tokens/s |\n|---|---|")
    sums: dict[str, list[float]] = {}
    kinds = {name: [Process(o.model, *kind) for _ in range(2)] for name, kind in KINDS.items()}
    for _ in range(o.rounds):
        for name in random.sample(list(kinds), len(kinds)):
            for process in kinds[name]:
                process.start(o.work, o.seconds)
            sums.setdefault(name, []).append(sum(rate(process.finish()) for process in kinds[name]))
    for name, found in sums.items():
        print(f"| {name} | {statistics.median(found):.1f} ({min(found):.1f}–{max(found):.1f}) |")
    for process in (p for both in kinds.values() for p in both):
        process.close()


def changes(subjects: dict[str, Process], o: argparse.Namespace) -> None:
    """The automatic number's rate after a change, from 300 ms or two steps on, over the better fixed one's then."""
    print("| change | median | least | number |\n|---|---|---|---|")
    for name, begins in (("they begin", True), ("they end", False)):
        shares = []
        for _ in range(o.changes):
            found = {}
            for subject, process in subjects.items():
                process.start(o.work, 2.5)
                found[subject] = _after(process, begins, o)
            shares.append(found["automatic"] / max(r for s, r in found.items() if s != "automatic"))
        cells = f"{statistics.median(shares):.0%} | {min(shares):.0%} | {o.changes}"
        print(f"| {max(o.busy)} {name} | {cells} |", flush=True)


def _after(process: Process, begins: bool, o: argparse.Namespace) -> float:
    if begins:
        time.sleep(0.7 + random.random() / 2)
        with neighbours(max(o.busy), o.neighbour, o.where):
            changed, answer = time.monotonic(), process.finish()
    else:
        with neighbours(max(o.busy), o.neighbour, o.where):
            time.sleep(0.7 + random.random() / 2)
        changed, answer = time.monotonic(), process.finish()
    later = [e for e in answer["ends"] if e > changed]
    return rate(answer, max(changed + GRACE, later[1] if len(later) > 2 else later[-1]))


KINDS = {"automatic": (2, True), "2 threads": (2, False), "1 thread": (1, False)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--work", default="decode", choices=("decode", "streams", "prompt", "mixed"))
    parser.add_argument("--busy", type=lambda text: [int(n) for n in text.split(",")], default=[0, 1, 2, 3, 4])
    parser.add_argument("--neighbour", default="compute", choices=tuple(NEIGHBOURS))
    parser.add_argument("--where", default="same", choices=("same", "session", "group"))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--changes", type=int, default=0)
    parser.add_argument("--pair", action="store_true")
    o = parser.parse_args()
    if o.pair:
        pair(o)
        return
    subjects = {name: Process(o.model, *kind) for name, kind in KINDS.items()}
    if o.changes:
        changes(subjects, o)
    else:
        table(subjects, o)
    for process in subjects.values():
        process.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1")
    else:
        main()
