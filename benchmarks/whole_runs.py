"""Rows that are no rate of a step: cold start, resident memory, sampling, and what the engine adds to its steps."""

from __future__ import annotations

import compileall
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

import cutaway
from cutaway import Engine, SamplingParams
from cutaway.bench import Settings, Subject
from cutaway.formats import open_model
from cutaway.sampling import Sampler

CONTEXT = 2048
VOCAB = 151936
# Not getrusage's figure, which a process takes over from the one that starts it.
PEAK = """
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024
"""
OURS = """
import json, sys
from cutaway import Engine, SamplingParams
path, threads = sys.argv[1], int(sys.argv[2])
with Engine.load(path, context={context}, threads=threads, contexts=1) as engine:
    engine.generate("The capital of France is", SamplingParams(max_tokens=1, temperature=0.0))
    print(json.dumps([peak(), engine.memory.total]))
"""
LLAMA = """
import json, sys
import llama_cpp
path, threads = sys.argv[1], int(sys.argv[2])
model = llama_cpp.Llama(path, n_ctx={context}, n_threads=threads, n_threads_batch=threads, verbose=False)
model("The capital of France is", max_tokens=1, temperature=0.0)
print(json.dumps([peak(), 0]))
"""


def whole_run_rows(files: Mapping[str, Path], peer: str | None, threads: int, rounds: int, peers: int) -> list[str]:
    """Lines under the table's headings. peers: how many columns of peers it has."""
    rows = []
    # As pip leaves what it installs, the peer too: without it a source tree is compiled at every start.
    compileall.compile_dir(Path(cutaway.__file__).parent, quiet=1)
    for key, path in files.items():
        ours, theirs = [], []
        for _ in range(rounds + 1):  # the first brings the files into memory
            ours.append(_start(sys.executable, OURS, path, threads))
            if peer is not None:
                theirs.append(_start(peer, LLAMA, path, threads))
        seconds = [median(run[0] for run in runs[1:]) if runs else None for runs in (ours, theirs)]
        memory = [median(run[1] for run in runs[1:]) / 1e6 if runs else None for runs in (ours, theirs)]
        rows.append(_row(f"cold start, {key}: s", seconds, peers, "1×", "0.7×", (seconds[1], _times(0.7, seconds[1]))))
        planned = ours[-1][2] / 1e6
        goal = f"1.15 × {planned:.0f} + 80 = {1.15 * planned + 80:.0f} MB"
        most = 1.15 * planned + 80 if memory[1] is None else min(1.15 * planned + 80, memory[1])
        rows.append(_row(f"peak resident, {key}: MB", memory, peers, goal, "", (most, None)))
    name = "one sampled token, top_k, top_p, penalties, 152k: ms"
    rows.append(_row(name, [_sampling(), None], peers, "0.3", "0.15", (0.3, 0.15)))
    share = _engine_share(files["smollm2"], threads)
    rows.append(_row("outside the step, SmolLM2: % of decoding", [100 * share, None], peers, "5", "2", (5, 2)))
    return rows


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _row(
    name: str,
    values: Sequence[float | None],
    peers: int,
    at_least: str,
    aim: str,
    goals: tuple[float | None, float | None],
) -> str:
    """values: ours, the peer's. goals: what ours must not exceed; None: no such goal."""
    ours, theirs = values
    assert ours is not None
    met = (
        "" if goals[0] is None else "no" if ours > goals[0] else "yes" if goals[1] is None or ours > goals[1] else "aim"
    )
    cells = [name, f"{ours:.2f}", *([f"{theirs:.2f}" if theirs else ""] + [""] * (peers - 1) if peers else [])]
    return "| " + " | ".join([*cells, f"{ours / theirs:.2f}×" if theirs else "", "", at_least, aim, met]) + " |"


def _start(python: str, script: str, path: Path, threads: int) -> tuple[float, int, int]:
    """Seconds from the process's start to its end after one token, its peak of resident bytes, the planned bytes."""
    begin = time.perf_counter()
    command = [python, "-c", PEAK + script.format(context=CONTEXT), str(path), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - begin
    resident, planned = json.loads(done.stdout.strip().splitlines()[-1])
    return seconds, resident, planned


def _sampling() -> float:
    """Milliseconds, median."""
    params = SamplingParams(temperature=0.8, top_k=40, top_p=0.95, repetition_penalty=1.1, presence_penalty=0.1)
    sampler = Sampler(params, seed=1, choice=0, prompt=list(range(100)), end_ids=frozenset(), tokenizer=None)
    rng = np.random.default_rng(0)
    rows = [rng.normal(0, 3, VOCAB).astype(np.float32) for _ in range(8)]
    times = []
    for i in range(200):
        logits = rows[i % len(rows)].copy()
        begin = time.perf_counter()
        sampler.choose(logits)
        times.append(time.perf_counter() - begin)
    return 1e3 * median(times)


def _engine_share(path: Path, threads: int, tokens: int = 128) -> float:
    """The part of a greedy decoded token's time that is not the step's."""
    subject = Subject.load("smollm2", open_model(path), Settings(context=512, threads=threads))
    params = SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True)
    shares = []
    with Engine.load(path, context=512, threads=threads) as engine:
        for _ in range(5):
            with engine.stream([1, 2, 3, 4], params) as pieces:
                stamps = [time.perf_counter() for _ in pieces]
            whole = (stamps[-1] - stamps[0]) / (len(stamps) - 1)
            steps = [subject.decoding(4 + i, 1) for i in range(tokens)]
            begin = time.perf_counter()
            for step in steps:
                subject.run(step)
            shares.append(1 - (time.perf_counter() - begin) / tokens / whole)
    return median(shares)
