"""Two versions of cutaway in pairs, for differences that interleaved rounds cannot tell (below 5 %).

    python benchmarks/paired.py OLD NEW --work decode --bound 1.01

OLD, NEW: a source tree with its extension built, or an extension file (then the Python of this tree runs it). Two
processes hold the model loaded and take turns in random blocks of 32 to 64 steps, which of them first drawn anew for
each block, until there are 2,000 pairs of steps. Both processes are started eight times, since where a process's memory
lies, and the like, is no property of its version. Prints the ratio of times with a 95 % interval, and whether the
interval lies below the bound. Exit status: 0 where it does, 1 otherwise. See docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pairs import FEWEST_PAIRS, Block, compare, plan_blocks

HERE = Path(__file__).resolve().parent
PAUSE = 0.02  # until the other process's threads have parked
WORKS = {"decode": (1, 0), "streams": (16, 0), "prefill": (0, 64)}  # streams, tokens of a prompt


class Side:
    """One version in a process of its own."""

    def __init__(self, version: Path, asked: dict[str, object], scratch: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(importable(version, scratch))}
        command = [sys.executable, str(HERE / "paired_worker.py"), json.dumps(asked)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self._line() != "ready":
            raise SystemExit(f"{version}: the model could not be loaded")

    def run(self, steps: int) -> tuple[float, ...]:
        assert self._process.stdin is not None
        print(steps, file=self._process.stdin, flush=True)
        seconds = json.loads(self._line() or "null")
        if seconds is None:
            raise SystemExit("one of the two processes ended early")
        time.sleep(PAUSE)
        return tuple(seconds)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def importable(version: Path, scratch: Path) -> Path:
    """A folder from which `import cutaway` has that version. Raises SystemExit where there is none."""
    version = version.resolve()
    if version.is_dir():
        found = next((f for f in (version / "src", version) if any(f.glob("cutaway/native/_native*.so"))), None)
        if found is None:
            raise SystemExit(f"{version}: there is no src/cutaway with a built extension")
        return found
    if not version.is_file():
        raise SystemExit(f"{version}: there is no such tree or extension")
    package = HERE.parent / "src" / "cutaway"
    made = Path(tempfile.mkdtemp(dir=scratch))
    (made / "cutaway" / "native").mkdir(parents=True)
    for path in [*package.iterdir(), *(package / "native").iterdir()]:
        if path.name not in ("native", "__pycache__") and path.suffix != ".so":
            (made / "cutaway" / path.relative_to(package)).symlink_to(path)
    extension = next((package / "native").glob("_native*.so"), version).name
    (made / "cutaway" / "native" / extension).symlink_to(version)
    return made


def measure(old: Side, new: Side, pairs: int, draw: random.Random) -> list[Block]:
    """Blocks in turn. The first of each side only warms up."""
    for side in (old, new):
        side.run(8)
    blocks = []
    for steps, new_first in plan_blocks(pairs, draw):
        first, second = (new, old) if new_first else (old, new)
        a, b = first.run(steps), second.run(steps)
        blocks.append(Block(b, a) if new_first else Block(a, b))
    return blocks


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--work", choices=WORKS, default="decode")
    parser.add_argument("--model", default="smollm2-135m", help="a name or a path, or synthetic:SHAPE[:TYPE]")
    parser.add_argument("--bound", type=float, default=1.01, help="time of the new over the old at most")
    parser.add_argument("--pairs", type=int, default=FEWEST_PAIRS)
    parser.add_argument("--loads", type=int, default=8, help="how often both processes are started")
    parser.add_argument("--tokens", type=int, help="of a prompt; default 64")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--instruction-set")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    streams, tokens = WORKS[options.work]
    asked: dict[str, object] = {
        "model": options.model, "streams": streams, "tokens": options.tokens if tokens and options.tokens else tokens,
        "threads": options.threads, "instruction_set": options.instruction_set,
    }  # fmt: skip
    draw, loads = random.Random(options.seed), []
    for _ in range(options.loads):
        with tempfile.TemporaryDirectory() as folder:
            sides = [Side(version, asked, Path(folder)) for version in (options.old, options.new)]
            try:
                loads.append(measure(sides[0], sides[1], -(-options.pairs // options.loads), draw))
            finally:
                for side in sides:
                    side.close()
    found = compare(loads, options.seed)
    print(f"{options.work}, {options.model}: {found.line(options.bound)}")
    return 0 if found.verdict(options.bound) == "met" else 1


if __name__ == "__main__":
    sys.exit(main())
