"""Running a decoder over tokens, in steps of any size, through shuffled pages; tiny random models to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutaway.formats import open_model
from cutaway.model import Decoder, kv_layout, load_decoder, read_spec
from cutaway.model.rope_scaling import RopeScaling
from cutaway.ops.protocol import KVType, Step
from cutaway.ops.reference_backend import ReferenceBackend

PAGE = 4


def run_tokens(decoder: Decoder, ids: Sequence[int], chunks: Sequence[int], types: tuple[KVType, KVType]) -> Any:
    """Logits of every position, float32 [tokens, vocab], computed in steps of the given sizes."""
    spec, count = decoder.spec, -(-len(ids) // PAGE)
    groups = len(set(spec.windows))
    layout = kv_layout(spec, pages=(count + 2,) * groups, page_size=PAGE, key_type=types[0], value_type=types[1])
    decoder.open_cache(layout)
    step_function: Any = decoder.step_function()
    order = np.random.default_rng(5)
    tables = tuple(order.permutation(count + 2)[None, :count].astype(np.int32) for _ in range(groups))
    assert sum(chunks) == len(ids)
    logits, start = [], 0
    for size in chunks:
        positions = np.arange(start, start + size, dtype=np.int32)
        rows = np.arange(size, dtype=np.int32)
        tokens = np.array(ids[start : start + size], np.int32)
        logits.append(step_function(Step(tokens, positions, np.zeros(size, np.int32), tables, rows)).values.copy())
        start += size
    return np.concatenate(logits)


@pytest.fixture(scope="session")
def run() -> Callable[..., Any]:
    """run(path, ids, chunks): open, load on the reference backend, compute the logits of all positions.

    change: fields of the spec to replace.
    """

    def call(
        path: Path,
        ids: Sequence[int],
        chunks: Sequence[int] | None = None,
        *,
        context: int | None = None,
        rope_scaling: RopeScaling | None = None,
        ops: ReferenceBackend | None = None,
        types: tuple[KVType, KVType] = ("f32", "f32"),
        change: Mapping[str, Any] | None = None,
    ) -> Any:
        with open_model(path) as file:
            spec = replace(read_spec(file), **(change or {}))
            decoder = load_decoder(
                file, spec, ops or ReferenceBackend(), context=context or len(ids), rope_scaling=rope_scaling
            )
            return run_tokens(decoder, ids, chunks or [len(ids)], types)

    return call


@pytest.fixture(scope="session")
def tiny_model() -> Callable[..., Any]:
    """tiny_model(folder, config_name, settings): a random model of a family of transformers, saved as safetensors."""
    return make_tiny_model


def make_tiny_model(folder: Path, config_name: str, settings: dict[str, Any]) -> Any:
    """Weights are larger than at the start of training, and no norm weight or bias is left at 1 or 0: what is not seen
    in the logits is not tested."""
    import torch
    import transformers

    torch.set_num_threads(1)
    torch.manual_seed(7)
    config = getattr(transformers, config_name)(**settings)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2:
                embeds = "embed" in name or "wte" in name or "wpe" in name
                parameter.normal_(0, 1.0 if embeds else parameter.shape[-1] ** -0.5)
            elif name.endswith("weight"):
                parameter.normal_(1.0, 0.3)
            else:
                parameter.normal_(0.0, 0.3)
    model.save_pretrained(folder)
    return model


@pytest.fixture(scope="session")
def oracle() -> Callable[..., Any]:
    """oracle(model, ids): logits of one forward pass over the whole text, no cache: float32 [tokens, vocab]."""

    def call(model: Any, ids: Sequence[int]) -> Any:
        import torch

        with torch.no_grad():
            return model(torch.tensor([list(ids)]), use_cache=False).logits[0].numpy()

    return call
