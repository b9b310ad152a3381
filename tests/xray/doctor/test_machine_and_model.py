"""Each check of a machine and a model has a broken instance that it names and a healthy one at which it is silent."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutaway.ops.backends import open_backend
from cutaway.registry import home, models
from cutaway.xray.doctor import build, environment, machine, model_files, template, tokenizer
from cutaway.xray.doctor.checks import Check, examination_json, examine
from cutaway.xray.doctor.diagnosis import Diagnosis
from cutaway.xray.doctor.subject import Subject
from text.conftest import byte_level
from tiny_llama import weights, write_gguf

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def codes(check: Check, subject: Subject) -> list[str]:
    return [one.code for one in check(subject)]


def on(root: Path, files: dict[str, str]) -> Subject:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Subject(root=root, environment={})


@pytest.mark.parametrize(
    ("check", "broken", "healthy", "code"),
    [
        (machine.processor_quota,
         {"sys/fs/cgroup/cpu.max": "150000 100000", "sys/fs/cgroup/cpu.stat": "nr_periods 100\nnr_throttled 40\n"},
         {"sys/fs/cgroup/cpu.stat": "nr_periods 100\nnr_throttled 1\n"}, "quota_pauses"),
        (machine.memory_kills, {"sys/fs/cgroup/memory.events": "low 0\noom_kill 3\n"},
         {"sys/fs/cgroup/memory.events": "low 0\noom_kill 0\n"}, "memory_kills"),
        (machine.other_load, {"proc/pressure/cpu": "some avg10=60.00 avg60=1.00 avg300=0 total=1\n"},
         {"proc/pressure/cpu": "some avg10=3.00 avg60=1.00 avg300=0 total=1\n"}, "other_load"),
        (machine.affinity, {"proc/cpuinfo": "".join(f"processor\t: {n}\n\n" for n in range(4096))},
         {"proc/cpuinfo": "processor\t: 0\n"}, "affinity"),
    ],
)  # fmt: skip
def test_machine(check: Check, broken: dict[str, str], healthy: dict[str, str], code: str, tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    subject = on(tmp_path, broken)
    assert codes(check, subject) == [code]
    assert codes(check, on(tmp_path, healthy)) == []


def test_what_the_kernel_does_not_say_is_unknown(tmp_path: Path) -> None:
    subject = on(tmp_path, {})
    for check in (machine.other_load, machine.affinity):
        (found,) = check(subject)
        assert found.severity == "unknown"
    assert codes(machine.memory_kills, subject) == codes(machine.processor_quota, subject) == []


def test_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Subject(environment={"CUTAWAY_APIKEY": "x", "HTTP_PROXY": "http://proxy:1", "CUTAWAY_HOME": "y"})
    (unread,) = environment.variables(odd)
    assert unread.code == "variable_unread" and unread.remedy == "write $CUTAWAY_API_KEY"
    assert codes(environment.proxy, odd) == ["proxy"]
    sound = Subject(environment={"CUTAWAY_API_KEY": "x", "http_proxy": "p", "no_proxy": "localhost, 127.0.0.1"})
    assert codes(environment.variables, sound) == codes(environment.proxy, sound) == []
    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path / "new"))
    assert codes(environment.cache, sound) == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path / "file"))
    assert codes(environment.cache, sound) == ["cache_read_only"]
    usage: Any = shutil._ntuple_diskusage(10, 9, 1)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path))
    assert codes(environment.cache, sound) == ["disk_full"]


@pytest.mark.parametrize(("encoding", "found"), [("ascii", ["console_encoding"]), ("utf-8", [])])
def test_console(encoding: str, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding))
    assert codes(environment.console, Subject(environment={"LC_ALL": "C"})) == found


def test_build(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Subject(environment={})
    assert codes(build.kernels, sound) == []
    if open_backend(threads=1).describe().instruction_set != "plain":
        assert codes(build.instruction_set, sound) == []
        assert codes(build.instruction_set, Subject(environment={"CUTAWAY_ISA": "plain"})) == ["isa_chosen"]
    assert codes(build.instruction_set, Subject(environment={"CUTAWAY_ISA": "mmx"})) == ["isa_invalid"]
    found, right = build.product()
    assert np.allclose(found, right, atol=1e-5)
    monkeypatch.setattr(build, "product", lambda: (found, right + 0.1))
    assert codes(build.kernels, sound) == ["kernels_wrong"]


# --- the model --------------------------------------------------------------------------------------------------------
def tiny(path: Path, *, vocab: int | None = None, **keys: Any) -> Path:
    return write_gguf(path, metadata(**keys), vocab=vocab)


def metadata(*, chat_template: str | None = CHATML, **keys: Any) -> dict[str, Any]:
    template = {} if chat_template is None else {"tokenizer.chat_template": chat_template}
    return {**byte_level(**keys), **template}


@pytest.fixture
def healthy(tmp_path: Path) -> Iterator[Subject]:
    subject = Subject(model=str(tiny(tmp_path / "sound.gguf")), machine=False)
    yield subject
    subject.close()


def examined(path: Path) -> dict[str, Diagnosis]:
    subject = Subject(model=str(path), machine=False)
    found = {one.code: one for one in examine(subject).findings if one.severity != "unknown"}
    subject.close()
    return found


def test_a_healthy_model_is_silent(healthy: Subject) -> None:
    found = examine(healthy)
    assert [one for one in found.findings if one.severity != "unknown"] == []
    assert {one.code for one in found.findings} == {"hash_unknown", "template_origin"} and found.status == 0
    told = examination_json(found)
    states = {one["check"]: one["state"] for one in told["checks"]}
    assert states["vocabulary"] == "ok" and states["model content"] == "unknown" and told["status"] == 0


def test_a_padded_vocabulary_is_healthy(tmp_path: Path) -> None:
    assert examined(tiny(tmp_path / "m.gguf", vocab=400)) == {}


@pytest.mark.models
def test_a_real_model_is_silent(smollm2_path: Path) -> None:
    assert examined(smollm2_path) == {}


def test_a_name_that_is_written_otherwise() -> None:
    for name in ("SmolLM2_135M ", "smollm2 135m", "Qwen2.5.Coder-0.5B"):
        (found,) = model_files.name(Subject(model=name))
        assert found.code == "model_name_differs" and found.remedy.startswith("write ")
    (found,) = model_files.name(Subject(model="no-such-thing-at-all"))
    assert found.code == "model_not_found"


def test_damaged_files(tmp_path: Path) -> None:
    path = tiny(tmp_path / "m.gguf")
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    assert set(examined(path)) == {"file_invalid"}
    tensors = weights(272)
    tensors["blk.1.ffn_up.weight"][3, 4] = np.nan
    count = len(byte_level()["tokenizer.ggml.tokens"])
    tensors["token_embd.weight"] = weights(count)["token_embd.weight"]
    write_gguf(path, metadata(), tensors=tensors)
    found = examined(path)
    assert set(found) == {"not_finite"} and "blk.1.ffn_up.weight" in found["not_finite"].evidence
    del tensors["blk.1.ffn_up.weight"]
    write_gguf(path, metadata(), tensors=tensors)
    assert "tensors_invalid" in examined(path)
    write_gguf(path, metadata(), model={"unheard_of": 7})
    assert set(examined(path)) == {"keys_unread"}
    write_gguf(path, metadata(), model={"logit_scale": 7.0})
    assert "model_unsupported" in examined(path)


def test_a_stored_file_that_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smollm2_path: Path) -> None:
    """A model in a cache of its own, with the real manifest's shape."""
    import dataclasses
    import json

    from cutaway.registry.store import Manifest, StoredFile, hash_file

    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path))
    path = tiny(tmp_path / "m.gguf")
    digest, size = hash_file(path), path.stat().st_size
    stored = (StoredFile("m.gguf", digest, size),)
    manifest = Manifest("tiny", "hf:a/b", "", digest, size, "MIT", "gguf", "hub", 0.0, stored)
    (home() / "models").mkdir()
    kept = home() / "models" / f"{manifest.stem}.gguf"
    shutil.move(path, kept)
    (home() / "models" / f"{manifest.stem}.json").write_text(json.dumps(dataclasses.asdict(manifest)))
    assert [one.manifest.name for one in models()] == ["tiny"]
    assert codes(model_files.content, Subject(model="tiny")) == []
    content = bytearray(kept.read_bytes())
    content[-5] ^= 1
    kept.write_bytes(content)
    assert codes(model_files.content, Subject(model="tiny")) == ["hash_differs"]


def test_large_files_are_read_only_to_measure(healthy: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "QUICK_BYTES", 10)
    assert codes(model_files.content, healthy) == ["content_unread"]
    healthy.measure = True
    assert codes(model_files.content, healthy) == ["hash_unknown"]


def test_memory(healthy: Subject, tmp_path: Path) -> None:
    assert codes(model_files.memory, healthy) == []
    healthy.root = on(tmp_path / "root", {"proc/meminfo": "MemAvailable: 10 kB\n"}).root
    assert codes(model_files.memory, healthy) == ["memory_short"]


def test_tokenizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, healthy: Subject) -> None:
    assert set(examined(tiny(tmp_path / "a.gguf", vocab=100))) == {"tokenizer_invalid"}
    assert "special_id_is_text" in examined(tiny(tmp_path / "b.gguf", eos_token_id=40))
    no_end = tiny(tmp_path / "c.gguf", eos_token_id=None, tokens=[f"a{n}" if n < 3 else token for n, token in enumerate(
        byte_level()["tokenizer.ggml.tokens"])])  # fmt: skip
    assert "no end token" in examined(no_end)["model_caution"].evidence
    assert codes(tokenizer.round_trip, healthy) == []
    assert healthy.opened is not None and healthy.opened.tokenizer is not None
    monkeypatch.setattr(healthy.opened.tokenizer, "decode", lambda ids: "?")
    assert codes(tokenizer.round_trip, healthy) == ["text_lost"]
    monkeypatch.undo()
    monkeypatch.setattr(healthy.opened.tokenizer, "encode", lambda text, add_special: [2])
    assert "marker_forged" in codes(tokenizer.round_trip, healthy)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (None, "no_template"), ("{% for %}", "template_invalid"), ("{{ raise_exception('no') }}", "template_refuses"),
        ("{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + CHATML, "template_refuses"),
        (CHATML.partition("{% if add")[0], "missing_generation_prompt"),
        (CHATML + "{{ strftime_now('%H:%M') }}", "clock"),
    ],
)  # fmt: skip
def test_templates(source: str | None, code: str, tmp_path: Path) -> None:
    subject = Subject(model=str(tiny(tmp_path / "m.gguf", chat_template=source)))
    assert code in [*codes(template.rendering, subject), *codes(template.rendered_prompt, subject)]
    subject.close()
