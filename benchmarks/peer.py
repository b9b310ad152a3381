"""A program that runs the same work, in a process of its own that speaks JSON lines (peers/commands.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from cutaway.bench import Work

SCRIPTS = Path(__file__).resolve().parent / "peers"
OTHERS = ("xllamacpp", "openvino", "onnxruntime", "transformers")  # besides llama.cpp


class Peer:
    """A peer's process."""

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        command = [python, str(SCRIPTS / f"run_{name.removesuffix('.cpp')}.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        about = self.ask(do="about")
        self.about = "; ".join(part for part in (about["version"], " ".join(about["features"].split())) if part)
        print(f"{name}: {self.about}", file=sys.stderr)

    def ask(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with status {self._process.wait()} while it was asked: {command}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def load(self, path: Path, work: Work, threads: int) -> bool:
        """Whether it can run this file."""
        streams = max(work.streams, 1)
        answer = self.ask(do="load", path=str(path), context=work.reach, streams=streams, threads=threads)
        if "unable" in answer:
            print(f"{self.name} leaves {path.name} out: {answer['unable']}", file=sys.stderr)
        return "unable" not in answer

    def run(self, work: Work, steps: int) -> float:
        """Tokens a second."""
        if work.streams:
            seconds = self.ask(do="decode", streams=work.streams, context=work.context, steps=steps)["seconds"]
            return float(work.streams * steps / seconds)
        return float(work.tokens / self.ask(do="prompt", tokens=work.tokens)["seconds"])

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


def named(text: str) -> tuple[str, str]:
    """NAME=PYTHON, or NAME for this interpreter."""
    name, _, python = text.partition("=")
    if name not in OTHERS:
        raise ValueError(name)
    return name, python or sys.executable
