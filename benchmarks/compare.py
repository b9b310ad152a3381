"""Ours beside its peers and beside the limits of this machine, interleaved: one table.

    python benchmarks/compare.py --peer-python PATH_TO_PYTHON

Every round takes the machine's limits, ours, then each peer, on the same file with the same threads; medians, and the
range. Peers run in processes of their own (peers/), llama.cpp through its C API. Pure Q4_0 and bf16 files are made
from the real ones by its own quantizer. See docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from goals import ROWS, Row
from peer import OTHERS, Peer, named
from whole_runs import whole_run_rows

from cutaway.bench import Limits, Meter, Settings, Subject, held_bytes, synthetic_model
from cutaway.bench.cost import Cost, step_costs, total
from cutaway.bench.limits import middle
from cutaway.bench.report import limits_line, processor
from cutaway.formats import open_model
from cutaway.native import _native
from cutaway.registry import resolve

HERE = Path(__file__).resolve().parent
SOURCES = {"smollm2": "smollm2-135m", "qwen": "qwen2.5-coder-0.5b", "gemma": "gemma3-270m"}
MADE = {"smollm2-bf16": ("smollm2", "BF16"), "qwen-q4_0": ("qwen", "Q4_0")}
ROUND_SECONDS = 0.4  # of ours, in a round; the peer takes as many steps
MOST_STEPS = 32
PAUSE = 0.05  # for threads that spin after their work


@dataclass(slots=True)
class Measured:
    """One row of the table. rates: tokens a second per program and round."""

    row: Row
    cost: Cost
    tokens: int
    rates: dict[str, list[float]] = field(default_factory=dict)
    limits: list[Limits] = field(default_factory=list)
    vector: list[Limits] = field(default_factory=list)

    @property
    def share(self) -> float:
        """What the row's goal is of: memory bandwidth, or the vector units' rates."""
        if self.row.work.streams and not self.row.arithmetic:
            seconds = [self.cost.seconds_reading(limits) for limits in self.limits]
        else:
            seconds = [self.cost.seconds_computing(limits) for limits in self.vector]
        return median(r / self.tokens * s for r, s in zip(self.rates["cutaway"], seconds, strict=True))

    def ratio(self, peer: str) -> float | None:
        if peer not in self.rates:
            return None
        return median(a / b for a, b in zip(self.rates["cutaway"], self.rates[peer], strict=True))


def measure(row: Row, path: Path | None, peers: Sequence[Peer], options: argparse.Namespace) -> Measured:
    """One row. path: None for synthetic weights, which no peer can read."""
    streams = max(row.work.streams, 1)
    settings = Settings(context=row.work.reach, streams=streams, threads=options.threads)
    if path is None:
        file = synthetic_model(row.model, "Q4_K")
        subject, peers = Subject.load(row.model, file, settings, held=held_bytes(file)), ()
    else:
        subject = Subject.load(row.model, open_model(path), settings)
        peers = [peer for peer in peers if peer.load(path, row.work, options.threads)]
    return _measure_row(row, subject, peers, options.rounds)


def _measure_row(row: Row, subject: Subject, peers: Sequence[Peer], rounds: int) -> Measured:
    work = row.work
    steps = (
        [subject.decoding(work.context + i, work.streams) for i in range(MOST_STEPS)]
        if work.streams
        else subject.prompt(work.tokens)
    )
    middle_step = steps[len(steps) // 2]
    counted = [middle_step] if work.streams else steps
    cost = total([total(step_costs(subject.decoder, subject.layout, step)) for step in counted])
    made = Measured(
        row, cost, work.streams or work.tokens, {name: [] for name in ["cutaway", *(p.name for p in peers)]}
    )
    meter = Meter(subject.backend, int(cost.bytes / len(counted)))
    seconds = min(_seconds(subject, steps[:2]) for _ in range(2)) / 2
    count = max(2, min(MOST_STEPS, int(ROUND_SECONDS / seconds))) if work.streams else len(steps)
    for peer in peers:
        peer.run(work, min(count, 2))
    for _ in range(rounds):
        made.limits.append(meter.once())
        made.vector.append(_vector(meter, made.limits[-1]))
        _seconds(subject, steps[:1])
        tokens = count * work.streams if work.streams else work.tokens
        made.rates["cutaway"].append(tokens / _seconds(subject, steps[:count]))
        for peer in peers:
            time.sleep(PAUSE)
            made.rates[peer.name].append(peer.run(work, count))
            time.sleep(PAUSE)
    return made


def _seconds(subject: Subject, steps: Sequence[Any]) -> float:
    begin = time.perf_counter()
    for step in steps:
        subject.run(step)
    return time.perf_counter() - begin


def _vector(meter: Meter, limits: Limits) -> Limits:
    """With the rates of 512-bit vectors where a matrix unit is in use: what the goals are of."""
    if meter.instruction_set != "amx":
        return limits
    int8, bf16 = (_native.multiply_limit(meter.team, "avx512", kind, 20000) for kind in ("int8", "bf16"))
    return replace(limits, int8=int8, bf16=bf16)


# --- the table --------------------------------------------------------------------------------------------------------
def line_of(m: Measured, peers: Sequence[str]) -> str:
    """A line of the table, in Markdown."""
    ratio = m.ratio(reference())
    cells = [m.row.name, spread(m.rates["cutaway"]), *(peer_cell(m, name) for name in peers)]
    cells += [times(ratio), f"{m.share:.0%}", m.row.at_least(), m.row.aim(), m.row.verdict(m.share, ratio)]
    return "| " + " | ".join(cells) + " |"


def reference() -> str:
    """The peer that the goals' ratios are of: on AVX2, the llama.cpp of a wheel that is built for it."""
    return "xllamacpp" if instruction_set() == "avx2" else "llama.cpp"


def peer_cell(m: Measured, name: str) -> str:
    """The reference's ratio has a column of its own."""
    parts = [spread(m.rates.get(name, [])), "" if name == reference() else times(m.ratio(name))]
    return ", ".join(part for part in parts if part)


def times(ratio: float | None) -> str:
    return f"{ratio:.2f}×" if ratio else ""


def spread(rates: Sequence[float]) -> str:
    return f"{median(rates):.1f} ({min(rates):.1f}–{max(rates):.1f})" if rates else ""


def page(
    measured: Sequence[Measured], others: Sequence[str], peers: Sequence[Peer], options: argparse.Namespace
) -> str:
    """What goes into docs/performance.md."""
    names = [p.name for p in peers]
    heads = ["work", "cutaway, tokens/s", *(name if name == reference() else f"{name}, ratio" for name in names)]
    heads += [f"ratio to {reference()}", "share of the limit", "at least", "aim", "met"]
    now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return "\n".join(
        [
            f"{processor()}, {options.threads} threads; instruction set {instruction_set()}; "
            f"Python {platform.python_version()}; {now}; medians (min–max) of {options.rounds} rounds.",
            *_limit_lines(measured),
            *(f"{p.name}: {p.about}" for p in peers),
            "",
            "| " + " | ".join(heads) + " |",
            "|" + "---|" * len(heads),
            *(line_of(m, names) for m in measured),
            *others,
        ]
    )


def instruction_set() -> str:
    """Ours."""
    return str(_native.instruction_set(os.environ.get("CUTAWAY_ISA", "")))


def _limit_lines(measured: Sequence[Measured]) -> list[str]:
    if not measured:
        return []
    limits = middle([one for m in measured for one in m.limits])
    vector = middle([one for m in measured for one in m.vector])
    return [f"Limits: {limits_line(limits)}; without a matrix unit: {limits_line(vector)}."]


def write_page(text: str, isa: str) -> None:
    """Between the instruction set's marks of docs/performance.md, and of the Chinese one."""
    for name in ("performance.md", "performance.zh-CN.md"):
        path = HERE.parent / "docs" / name
        old = path.read_text("utf-8")
        new = re.sub(
            rf"(<!-- table {isa} -->\n).*?(<!-- end of table -->)",
            lambda m: f"{m[1]}{text}\n{m[2]}",
            old,
            flags=re.DOTALL,
        )
        path.write_text(new, "utf-8")


# --- models and peers -------------------------------------------------------------------------------------------------
def start_peers(options: argparse.Namespace) -> list[Peer]:
    """Refuses a build of llama.cpp that leaves idle the AVX-512 that we use: it would compare with nothing."""
    others = [Peer(name, python) for name, python in options.peer]
    if options.no_peer:
        return others
    llama = Peer("llama.cpp", options.peer_python)
    if instruction_set() in ("amx", "avx512") and "AVX512 = 1" not in llama.about:
        raise SystemExit("this build of llama.cpp lacks AVX-512, which the processor has: build it here, from source")
    return [llama, *others]


def model_path(key: str, llama: Peer | None, options: argparse.Namespace) -> Path:
    """A real model's file, or one made from it by llama.cpp's quantizer."""
    if key not in MADE:
        given = getattr(options, key)
        return Path(given) if given else resolve(SOURCES[key], pull=True).path
    source, type = MADE[key]
    options.made.mkdir(parents=True, exist_ok=True)
    target: Path = options.made / f"{key}.gguf"
    if not target.exists():
        if llama is None:
            raise SystemExit(f"{key} is made by llama.cpp's quantizer: do not leave the peer out")
        llama.ask(
            do="quantize",
            source=str(model_path(source, llama, options)),
            target=str(target),
            type=type,
            threads=options.threads,
        )
    return target


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has llama-cpp-python")
    parser.add_argument("--no-peer", action="store_true", help="without llama.cpp")
    parser.add_argument(
        "--peer",
        type=named,
        action="append",
        default=[],
        metavar="NAME=PYTHON",
        help=f"another one, and an interpreter that has it: {', '.join(OTHERS)}",
    )
    for key in SOURCES:
        parser.add_argument(f"--{key}", help="a file; else it is fetched by name")
    parser.add_argument(
        "--made", type=Path, default=Path.home() / ".cache" / "cutaway" / "bench", help="where made files are kept"
    )
    parser.add_argument("--rows", default="", help="only rows whose name has this in it")
    parser.add_argument("--synthetic", action="store_true", help="the rows of large models with random weights, too")
    parser.add_argument(
        "--whole", action="store_true", help="cold start, resident memory, sampling and the engine's own time, too"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    peers = start_peers(options)
    llama = None if options.no_peer else peers[0]
    measured: list[Measured] = []
    wanted = [r for r in ROWS if options.rows.lower() in r.name.lower() and (options.synthetic or not r.synthetic)]
    for row in [r.on_avx2() for r in wanted] if instruction_set() == "avx2" else wanted:
        measured.append(measure(row, None if row.synthetic else model_path(row.model, llama, options), peers, options))
        print(line_of(measured[-1], [p.name for p in peers]), file=sys.stderr, flush=True)
    others = []
    if options.whole:
        files = {key: model_path(key, llama, options) for key in ("smollm2", "qwen")}
        others = whole_run_rows(
            files, None if options.no_peer else options.peer_python, options.threads, options.rounds, len(peers)
        )
    for peer in peers:
        peer.close()
    text = page(measured, others, peers, options)
    print(text)
    if options.write:
        write_page(text, instruction_set())


if __name__ == "__main__":
    main()
