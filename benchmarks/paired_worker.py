"""One side of paired.py: holds a loaded model, runs as many steps as a line asks for, answers with their seconds.

Which cutaway it measures is decided by PYTHONPATH. It uses only what every version's cutaway.bench has.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from cutaway.bench import Settings, Subject, synthetic_model
from cutaway.formats import open_model
from cutaway.registry import resolve

CONTEXT, REACH = 128, 64


def main() -> None:
    asked = json.loads(sys.argv[1])
    streams, tokens = asked["streams"], asked["tokens"]
    settings = Settings(
        context=max(tokens, CONTEXT + REACH), streams=max(streams, 1), threads=asked["threads"],
        instruction_set=asked["instruction_set"],
    )  # fmt: skip
    name: str = asked["model"]
    if name.startswith("synthetic:"):
        shape, _, kind = name.removeprefix("synthetic:").partition(":")
        file = synthetic_model(shape, kind or "Q4_K")
    else:
        file = open_model(resolve(name).path)
    subject = Subject.load(name, file, settings)
    steps: list[list[Any]] = (
        [[subject.decoding(CONTEXT + i, streams)] for i in range(REACH)] if streams else [subject.prompt(tokens)]
    )
    for step in steps[0] * 4:
        subject.run(step)
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = []
        for i in range(int(line)):
            begin = time.perf_counter()
            for step in steps[i % len(steps)]:
                subject.run(step)
            seconds.append(time.perf_counter() - begin)
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
