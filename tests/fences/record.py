"""Freeze today's behaviour:  python tests/fences/record.py

Writes tests/fences/data/. Run it after a change that is meant to change behaviour, look at the difference
(git diff tests/fences/data), and commit it together with the change, with the reason in the commit's message.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":  # as a script, this folder stands first in the path, and its requests.py is not the library
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from fences.exchanges import record_exchanges
from fences.logits import record_logits
from fences.surfaces import config_keys, error_codes, help_texts, openapi, public_names

DATA = Path(__file__).resolve().parent / "data"
COMMAND = "python tests/fences/record.py"


def record_texts(folder: Path) -> dict[str, str]:
    """Everything but the logits, by file name. folder: where the served model may be written."""
    exchanges, metrics = record_exchanges(folder)
    return {
        "help.txt": help_texts(), "public.txt": public_names(), "errors.txt": error_codes(),
        "config.txt": config_keys(),
        "openapi.txt": openapi(folder), "exchanges.txt": exchanges, "metrics.txt": metrics,
    }  # fmt: skip


def main() -> None:
    DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in record_texts(Path(folder)).items():
            (DATA / name).write_text(text, "utf-8")
    (DATA / "logits.json").write_text(json.dumps(record_logits("plain"), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
