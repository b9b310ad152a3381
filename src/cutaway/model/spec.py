"""What the decoder must know of a model: sizes, norms, positions, scales. One value, from GGUF or config.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from cutaway.errors import FormatError
from cutaway.model.rope_scaling import RopeScaling
from cutaway.ops.protocol import Activation, KVGroup, KVLayout, KVType

Positions = Literal["none", "learned", "sinusoidal", "alibi", "rope"]


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """Rotary positions of one kind of layer: base, how many inputs of a head are turned, the model's own scaling."""

    base: float
    rotary_dim: int
    scaling: RopeScaling | None = None


@dataclass(frozen=True, slots=True)
class ExpertSpec:
    """A mixture of experts. intermediate: width of one expert; shared: width of the experts all tokens use, 0 if none.

    Router probabilities are a softmax over all `count`; the `used` largest are divided by their sum if `renormalize`.
    """

    count: int
    used: int
    intermediate: int
    renormalize: bool
    scale: float = 1.0
    shared: int = 0


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Everything but the weights.

    family: our name of the architecture, a key of the tables of `tensor_names.py`.
    context: tokens that the model was trained on. intermediate: width of the dense feed-forward.
    windows: per layer, the sliding window in tokens (a token sees itself and window - 1 before it), None for full.
    rope: full-attention layers; local_rope: window layers, if they differ (Gemma 3). rope_layers: False where a layer
    has no positions at all (SmolLM3). expert_layers: True where the feed-forward is a mixture (all False if none is).
    position_offset: rows of the position table to skip (XGLM: 2). Norms sit where the file has weights for them.
    """

    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context: int
    norm: Literal["rms", "layer"]
    eps: float
    activation: Activation
    positions: Positions
    windows: tuple[int | None, ...]
    rope_layers: tuple[bool, ...]
    expert_layers: tuple[bool, ...]
    attention_scale: float
    tied: bool
    rope: RopeSpec | None = None
    local_rope: RopeSpec | None = None
    experts: ExpertSpec | None = None
    attention_softcap: float | None = None
    logit_softcap: float | None = None
    logit_scale: float = 1.0
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    position_offset: int = 0

    def __post_init__(self) -> None:
        """Raises FormatError when the numbers contradict each other."""
        ropes = [r for r in (self.rope, self.local_rope) if r is not None]
        if self.heads % self.kv_heads:
            raise FormatError(f"{self.heads} attention heads are not a multiple of {self.kv_heads} key-value heads")
        if any(r.rotary_dim % 2 or not 0 < r.rotary_dim <= self.head_dim for r in ropes):
            raise FormatError(
                f"rotary width {ropes[0].rotary_dim} must be even and at most the head width {self.head_dim}"
            )
        if self.experts is not None and self.experts.used > self.experts.count:
            raise FormatError(f"{self.experts.used} experts per token of only {self.experts.count}")
        assert len(self.windows) == len(self.rope_layers) == len(self.expert_layers) == self.layers

    def layer_rope(self, layer: int) -> RopeSpec | None:
        """The rotary positions of one layer, None where it has none."""
        if not self.rope_layers[layer]:
            return None
        return self.local_rope if self.local_rope is not None and self.windows[layer] is not None else self.rope


class LayerGroup(NamedTuple):
    """Layers that can share one page table."""

    layers: tuple[int, ...]
    window: int | None


def kv_groups(spec: ModelSpec) -> tuple[LayerGroup, ...]:
    """Layers grouped by window: full attention first, then ascending windows. Every layer is in exactly one group."""
    order = sorted(set(spec.windows), key=lambda window: (window is not None, window or 0))
    return tuple(LayerGroup(tuple(i for i, w in enumerate(spec.windows) if w == window), window) for window in order)


def kv_layout(
    spec: ModelSpec, *, pages: tuple[int, ...], page_size: int, key_type: KVType = "bf16", value_type: KVType = "bf16"
) -> KVLayout:
    """How keys and values of this model lie in pages. pages: per group of `kv_groups`, how many."""
    groups = tuple(KVGroup(g.layers, g.window, count) for g, count in zip(kv_groups(spec), pages, strict=True))
    return KVLayout(spec.kv_heads, spec.head_dim, page_size, key_type, value_type, groups)
