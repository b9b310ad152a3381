"""The memory of a process that has everything but a model's weights, pages and buffers: Python, libraries, the
tokenizer. Measured in a process of its own, as what it comes to depends on versions and on the machine's allocator.

    python -m cutaway.xray.bare_process [MODEL FILE]      prints one JSON object
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cutaway.ops.process_memory import resident


def bare_process(path: Path | None) -> int | None:
    """Bytes of anonymous memory that an engine's process has beside the engine's own; None: not to be known.

    path: the model's file or folder, for its tokenizer and template; None: only Python and the libraries.
    """
    command = [sys.executable, "-m", "cutaway.xray.bare_process", *([str(path)] if path else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    try:
        value = json.loads(done.stdout)["anonymous"]
    except (ValueError, KeyError, TypeError):
        return None
    return value if isinstance(value, int) else None


def load_all_but_weights(path: Path) -> list[object]:
    """What `Engine.load` makes of a model beside its weights."""
    import numpy as np

    from cutaway.engine import EngineCore
    from cutaway.formats import open_model
    from cutaway.model import read_spec
    from cutaway.ops.backends import open_backend
    from cutaway.ops.protocol import Step
    from cutaway.ops.rows import HostRows
    from cutaway.planner import outline_model
    from cutaway.sampling import SamplingParams
    from cutaway.text import load_template, load_tokenizer

    file = open_model(path)
    spec = read_spec(file)
    outline = outline_model(file, spec, open_backend("native"))
    tokenizer = load_tokenizer(file.path, file.metadata, rows=spec.vocab)
    tokenizer.prepare()
    template = load_template(file.path, file.metadata, tokenizer)
    layout = outline.layout(256, 1, "bf16", "bf16")

    def forward(step: Step) -> HostRows:
        return HostRows(np.zeros((len(step.rows), spec.vocab), np.float32))

    core = EngineCore(forward, layout, tokenizer, vocab=spec.vocab, context=256)
    core.start()
    stream = core.submit(tokenizer.encode("What a process keeps?"), SamplingParams(max_tokens=16, ignore_eos=True))
    return [file, tokenizer, template, core, list(stream)]


def main() -> None:
    import cutaway.assemble  # noqa: F401  # what an engine's process has imported

    kept = load_all_but_weights(Path(sys.argv[1])) if len(sys.argv) > 1 else []
    found = resident()
    print(json.dumps({"anonymous": None if found is None else found.anonymous, "parts": len(kept)}))


if __name__ == "__main__":
    main()
