"""A tiny model of every decoder family in both formats, in memory, with weights of `tiny_weights`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cutaway.formats import ModelFile, Tensor
from cutaway.model.tensor_names import NAMES, Names
from fences.tiny_weights import matrix, vector

SMALL_BLOCKS = ("Q8_0", "Q4_0", "Q5_1", "F16", "Q4_1", "Q5_0", "IQ4_NL", "F32")
LARGE_BLOCKS = ("Q4_K", "Q6_K", "Q5_K", "Q2_K", "Q3_K", "IQ4_XS", "Q8_0")
FLOATS = ("F32", "F16")
WITH_BF16 = ("BF16", "F32", "BF16", "F16")
WINDOW = 7  # shorter than the text


@dataclass(frozen=True)
class Sizes:
    layers: int = 3
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    intermediate: int = 96
    vocab: int = 96
    context: int = 64
    experts: int = 5
    width: int = 32  # of an expert
    shared: int = 64


ODD = Sizes(hidden=36, heads=6, head_dim=10, intermediate=44, vocab=97, width=20, shared=28)
PLAIN = replace(ODD, head_dim=6)  # hidden / heads
BLOCK = replace(PLAIN, kv_heads=6, intermediate=144)  # GPT-2's shape
GGUF_BLOCK = Sizes(kv_heads=4, intermediate=256)
WIDE = Sizes(layers=4, hidden=256, heads=4, head_dim=64, intermediate=256)


@dataclass(frozen=True)
class Case:
    """settings: of the file's metadata, without the architecture, or of its config.json, beside the sizes.

    types: of its matrices, in turn. tied: no output matrix. dense: layers without experts.
    """

    format: str
    family: str
    architecture: str
    sizes: Sizes
    settings: Mapping[str, Any]
    types: tuple[str, ...]
    tied: bool = False
    dense: frozenset[int] = frozenset()
    whole_row_norm: bool = False  # q and k norms over the whole row (OLMo 2)
    prompt: int = 24

    @property
    def has_bf16(self) -> bool:
        return "BF16" in self.types


def gguf(
    family: str, architecture: str | None = None, sizes: Sizes | None = None, settings: Mapping[str, Any] | None = None,
    types: tuple[str, ...] = SMALL_BLOCKS, **more: Any,
) -> Case:  # fmt: skip
    return Case("gguf", family, architecture or family, sizes or Sizes(), settings or {}, types, **more)


def hub(
    family: str, model_type: str | None = None, sizes: Sizes = ODD, types: tuple[str, ...] = FLOATS,
    settings: Mapping[str, Any] | None = None, **more: Any,
) -> Case:  # fmt: skip
    return Case("safetensors", family, model_type or family, sizes, settings or {}, types, **more)


_WINDOW = {"attention.sliding_window": WINDOW}
_EXPERTS = {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 32}
_GRANITE = {"embedding_scale": 3.0, "logit_scale": 5.0, "residual_scale": 0.5, "attention.scale": 0.25}
_YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16}
_HUB_EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 20}
_HUB_GRANITE = {"embedding_multiplier": 3.0, "logits_scaling": 5.0, "residual_multiplier": 0.4}

CASES: dict[str, Case] = {
    "gguf-llama": gguf("llama", tied=True),
    "gguf-llama-yarn": gguf("llama", settings=_YARN),
    "gguf-llama-k": gguf("llama", sizes=WIDE, types=LARGE_BLOCKS),
    "gguf-llama-long": gguf("llama", sizes=replace(Sizes(), layers=1, context=640), prompt=600),
    "gguf-mistral": gguf("llama", settings=_WINDOW),
    "gguf-mixtral": gguf("mixtral", "llama", settings={"expert_count": 5, "expert_used_count": 2}),
    "gguf-qwen2": gguf("qwen2"),
    "gguf-qwen3": gguf("qwen3", sizes=replace(Sizes(), head_dim=24), tied=True),
    "gguf-phi3": gguf("phi3", settings=_WINDOW),
    "gguf-gemma2": gguf("gemma2", settings=_WINDOW, tied=True),
    "gguf-gemma3": gguf("gemma3", sizes=replace(Sizes(), layers=7), settings=_WINDOW, tied=True),
    "gguf-smollm3": gguf("smollm3", sizes=replace(Sizes(), layers=5), tied=True),
    "gguf-granite": gguf("granite", settings=_GRANITE),
    "gguf-olmo2": gguf("olmo2", whole_row_norm=True),
    "gguf-qwen2moe": gguf("qwen2moe", settings=_EXPERTS, dense=frozenset({1})),
    "gguf-qwen3moe": gguf("qwen3moe", settings=_EXPERTS),
    "gguf-gpt2": gguf("gpt2", sizes=GGUF_BLOCK, tied=True),
    "gguf-bloom": gguf("bloom", sizes=GGUF_BLOCK, tied=True),
    "hub-llama": hub("llama", settings={"mlp_bias": True}),
    "hub-llama-bf16": hub("llama", types=WITH_BF16),
    "hub-mistral": hub("mistral", settings={"sliding_window": WINDOW}),
    "hub-qwen2": hub(
        "qwen2", sizes=PLAIN,
        settings={"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    ),
    "hub-qwen3": hub("qwen3", tied=True),
    "hub-phi3": hub("phi3", sizes=PLAIN, settings={"sliding_window": WINDOW}),
    "hub-gemma2": hub("gemma2", settings={"sliding_window": WINDOW, "query_pre_attn_scalar": 13}, tied=True),
    "hub-gemma3": hub(
        "gemma3", "gemma3_text", replace(ODD, layers=7),
        settings={"sliding_window": WINDOW, "query_pre_attn_scalar": 13}, tied=True,
    ),
    "hub-smollm3": hub("smollm3", sizes=replace(PLAIN, layers=5), tied=True),
    "hub-granite": hub("granite", sizes=PLAIN, settings={**_HUB_GRANITE, "attention_multiplier": 0.21}),
    "hub-olmo2": hub("olmo2", sizes=PLAIN, whole_row_norm=True),
    "hub-mixtral": hub(
        "mixtral", sizes=replace(ODD, width=44), settings={"num_local_experts": 5, "num_experts_per_tok": 2}
    ),
    "hub-qwen2moe": hub(
        "qwen2moe", "qwen2_moe", PLAIN, dense=frozenset({1}),
        settings={**_HUB_EXPERTS, "shared_expert_intermediate_size": 28, "mlp_only_layers": [1]},
    ),
    "hub-qwen3moe": hub("qwen3moe", "qwen3_moe", settings={**_HUB_EXPERTS, "norm_topk_prob": True}),
    "hub-gpt2": hub("gpt2", sizes=BLOCK, tied=True),
    "hub-bloom": hub("bloom", sizes=BLOCK, tied=True),
    "hub-xglm": hub("xglm", sizes=replace(BLOCK, intermediate=44), tied=True),
}  # fmt: skip


def tiny_model(case: Case) -> ModelFile:
    """The case as an opened file would be."""
    names = NAMES[case.format][case.family]
    tensors = {tensor.name: tensor for tensor in _tensors(case, names)}
    path = Path(f"tiny-{case.family}.{case.format}")
    if case.format == "gguf":
        return ModelFile(path, "gguf", (), tensors, metadata=metadata(case))
    return ModelFile(path, "safetensors", (), tensors, metadata={}, config=config(case))


def metadata(case: Case) -> dict[str, Any]:
    """GGUF's keys."""
    s, arch = case.sizes, case.architecture
    keys = {
        "block_count": s.layers, "context_length": s.context, "embedding_length": s.hidden,
        "feed_forward_length": s.width if case.family == "mixtral" else s.intermediate,
        "attention.head_count": s.heads, "attention.head_count_kv": s.kv_heads,
        "attention.key_length": s.head_dim, "attention.value_length": s.head_dim,
        "attention.layer_norm_rms_epsilon": 1e-5,
    } | dict(case.settings)  # fmt: skip
    return {"general.architecture": arch} | {f"{arch}.{key}": value for key, value in keys.items()}


def config(case: Case) -> dict[str, Any]:
    """config.json."""
    s = case.sizes
    return {
        "model_type": case.architecture, "num_hidden_layers": s.layers, "hidden_size": s.hidden,
        "num_attention_heads": s.heads, "num_key_value_heads": s.kv_heads, "head_dim": s.head_dim,
        "intermediate_size": s.intermediate, "vocab_size": s.vocab, "max_position_embeddings": s.context,
        "tie_word_embeddings": case.tied,
    } | dict(case.settings)  # fmt: skip


def _tensors(case: Case, names: Names) -> Iterator[Tensor]:
    """Every tensor in the family's name table. Its values depend on our name, not on the file's."""
    shapes, types = _shapes(case), 0
    for ours, spellings in names.tensors.items():
        for layer in range(case.sizes.layers if "{layer}" in spellings[0] else 1):
            for spelled, shape in _placed(case, names, ours, spellings, layer, shapes):
                middle = 1.0 - names.norm_offset if ours.endswith("norm") else 0.0
                key = f"{ours} {spelled if '.experts.' in spelled else layer}"
                if ours.endswith("norm"):
                    yield vector(spelled, shape, middle, key)
                else:
                    type = "F32" if "router" in ours else case.types[types % len(case.types)]
                    yield matrix(spelled, type, shape, key, 8.0 if ours == "embedding" and not case.tied else 1.0)
                    types += 1
                if ours in names.biases or (_layer_norms(case) and ours.endswith("norm")):
                    rows = shape[-1] if ours in names.transposed else shape[0]
                    yield vector(spelled.removesuffix("weight") + "bias", (rows,), 0.0, key + " bias")


def _layer_norms(case: Case) -> bool:
    return case.family in ("gpt2", "bloom", "xglm")


def _placed(
    case: Case, names: Names, ours: str, spellings: tuple[str, ...], layer: int, shapes: dict[str, tuple[int, ...]]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The spelled names of one of our tensors in one layer, with their shapes; none where the layer has none."""
    mixes = "router" in names.tensors and layer not in case.dense
    fused = "expert_gate_up" in names.tensors
    if (ours == "head" and case.tied) or (ours in ("gate", "up", "down") and mixes):
        return
    if (ours.startswith(("expert", "shared")) or ours == "router") and not mixes:
        return
    if fused and ours in ("expert_gate", "expert_up"):
        return
    shape = shapes[ours]
    if ours in names.transposed:
        shape = shape[::-1]
    model = names.prefixes[0]
    if fused and ours == "expert_down":
        spelling = spellings[-1]
    else:
        spelling = spellings[0]
    yield f"{spelling.format(model=model, layer=layer)}.weight", shape


def _shapes(case: Case) -> dict[str, tuple[int, ...]]:
    s = case.sizes
    q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    return {
        "embedding": (s.vocab, s.hidden), "head": (s.vocab, s.hidden), "positions": (s.context, s.hidden),
        "norm": (s.hidden,), "embedding_norm": (s.hidden,), "attention_norm": (s.hidden,), "feed_norm": (s.hidden,),
        "attention_post_norm": (s.hidden,), "feed_post_norm": (s.hidden,),
        "q_norm": (q if case.whole_row_norm else s.head_dim,), "k_norm": (kv if case.whole_row_norm else s.head_dim,),
        "q": (q, s.hidden), "k": (kv, s.hidden), "v": (kv, s.hidden), "qkv": (q + 2 * kv, s.hidden),
        "output": (s.hidden, q), "gate": (s.intermediate, s.hidden), "up": (s.intermediate, s.hidden),
        "gate_up": (2 * s.intermediate, s.hidden), "down": (s.hidden, s.intermediate), "router": (s.experts, s.hidden),
        "expert_gate": (s.experts, s.width, s.hidden), "expert_up": (s.experts, s.width, s.hidden),
        "expert_gate_up": (s.experts, 2 * s.width, s.hidden), "expert_down": (s.experts, s.hidden, s.width),
        "shared_gate": (s.shared, s.hidden), "shared_up": (s.shared, s.hidden), "shared_down": (s.hidden, s.shared),
        "shared_router": (1, s.hidden),
    }  # fmt: skip
