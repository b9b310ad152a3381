"""`cutaway serve`: what the command line says reaches the config, whichever way the models are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cutaway.server
from cutaway.cli import main
from cutaway.cli import serve as command
from cutaway.config import Config

OPTIONS: dict[str, tuple[str, Any]] = {
    "--context": ("models.context", 600), "--contexts": ("models.contexts", 3), "--threads": ("models.threads", 1),
    "--max-requests": ("models.max_requests", 5), "--kv-k": ("models.kv_k", "f32"), "--kv-v": ("models.kv_v", "int8"),
    "--speculate": ("models.speculate", "ngram"), "--host": ("server.host", "::1"), "--port": ("server.port", 81),
    "--api-key": ("server.api_keys", ("a",)), "--cors-origin": ("server.cors_origins", ("http://a",)),
    "--memory": ("server.memory", "6GB"), "--resume": ("server.resume", 5.0), "--queue": ("limits.queue", 7),
    "--log-level": ("logging.level", "error"), "--log-format": ("logging.format", "json"),
}  # fmt: skip


@pytest.mark.parametrize("models", [[], ["a.gguf"], ["x=a.gguf", "y=b.gguf"], ["named"]])
def test_every_option_arrives(models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cutaway.toml").write_text('[[models]]\nmodel = "c.gguf"\nname = "named"\ncontexts = 2\ncontext = 100')
    served: list[Config] = []
    monkeypatch.setattr(cutaway.server, "serve", served.append)
    monkeypatch.setattr(command, "model_on_disk", lambda name: None)
    said = [str(word) for name, (_, value) in OPTIONS.items() for word in (name, _one(value))]
    with pytest.raises(SystemExit) as left:
        main(["serve", *models, *said])
    assert left.value.code == 0
    (config,) = served
    assert len(config.models) == max(1, len(models))
    for name, (place, expected) in OPTIONS.items():
        section, key = place.split(".")
        for part in config.models if section == "models" else [getattr(config, section)]:
            assert getattr(part, key) == expected, name


def _one(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value
