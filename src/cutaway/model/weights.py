"""From an opened file to a decoder: tensor by tensor, each packed and its source pages given back at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cutaway.errors import FormatError, ParameterError
from cutaway.formats import ModelFile, Tensor, dequantize
from cutaway.model.decoder import Decoder, FeedForward, Layer
from cutaway.model.positions import alibi_slopes, rope_table, sinusoidal_table
from cutaway.model.rope_scaling import RopeScaling
from cutaway.model.spec import ExpertSpec, ModelSpec, RopeSpec
from cutaway.model.spec_config import spec_from_config
from cutaway.model.spec_gguf import gguf_cautions, spec_from_gguf
from cutaway.model.tensor_source import TensorSource
from cutaway.model.transforms import half_order, per_head_order, pick_rows, row_range, stack_member
from cutaway.ops.backend import Backend
from cutaway.ops.protocol import F32, Attention, Experts, Matrix, Norm, Rope, Weight


def read_spec(file: ModelFile) -> ModelSpec:
    """The spec of an opened model, from GGUF metadata or the config.json beside safetensors."""
    if file.format == "gguf":
        return spec_from_gguf(file.metadata, file.tensors)
    if file.config is None:
        raise FormatError(f"{file.path.name}: there is no config.json in its folder")
    return spec_from_config(file.config)


def load_decoder(
    file: ModelFile, spec: ModelSpec, backend: Backend, *, context: int, rope_scaling: RopeScaling | None = None,
    warnings: list[str] | None = None,
) -> Decoder:  # fmt: skip
    """Pack all weights of an opened model for a backend.

    context: tokens that a request may have, the length of position tables. rope_scaling: in place of the model's own.
    warnings: gets what the files hold that is not used or damaged, and does not keep them from being loaded.
    Raises FormatError (missing tensor, wrong shape), UnsupportedError, ParameterError.
    """
    source = TensorSource.of(file, spec)
    source.looks = warnings is not None
    decoder = _Loader(file, spec, backend, context, rope_scaling, source, {}).decoder()
    if warnings is not None:
        warnings.extend(gguf_cautions(file.metadata, file.tensors) if file.format == "gguf" else ())
        warnings.extend(source.cautions())
    return decoder


@dataclass(frozen=True, slots=True)
class _Loader:
    """One load. ropes: tables made so far, shared between layers of one kind."""

    file: ModelFile
    spec: ModelSpec
    backend: Backend
    context: int
    rope_scaling: RopeScaling | None
    source: TensorSource
    ropes: dict[RopeSpec, Rope]

    def decoder(self) -> Decoder:
        spec, source = self.spec, self.source
        if self.rope_scaling is not None and spec.rope is None:
            raise ParameterError(f"rope_scaling: {spec.family} has no rotary positions")
        table, tensor = source.matrix("embedding", spec.vocab, spec.hidden)
        embedding = self.backend.table(table)
        head = self._head(table, tensor)
        decoder = Decoder(
            spec=spec,
            backend=self.backend,
            context=self.context,
            embedding=embedding,
            layers=tuple(self._layer(i) for i in range(spec.layers)),
            norm=self._final_norm(),
            head=head,
            positions=self._positions(),
            embedding_norm=self._norm("embedding_norm", spec.hidden),
        )
        source.check_all_used()
        return decoder

    # --- both ends ----------------------------------------------------------------------------------------------------
    def _head(self, table: Matrix, tensor: Tensor) -> Weight:
        """The output matrix: the file's own, or the embedding when tied (a tied safetensors file may carry a copy)."""
        if self.spec.tied:
            self.source.find("head")
            return self._pack(table, None, tensor)
        return self._linear("head", self.spec.vocab, self.spec.hidden)

    def _final_norm(self) -> Norm:
        norm = self._norm("norm", self.spec.hidden)
        assert norm is not None, "every family has a last norm"
        return norm

    def _positions(self) -> F32 | None:
        spec = self.spec
        if spec.positions == "sinusoidal":
            return sinusoidal_table(self.context, spec.hidden, spec.position_offset)
        if spec.positions != "learned":
            return None
        tensor = self.source.take("positions")
        rows = tensor.shape[0]
        if len(tensor.shape) != 2 or tensor.shape[1] != spec.hidden:
            raise FormatError(f"{self.file.path.name}: tensor {tensor.name} has shape {tensor.shape}")
        if self.context > rows:
            raise ParameterError(f"context: {self.context} tokens, but the model has learned positions for {rows} only")
        return dequantize(tensor.type, tensor.raw, tensor.shape)[: self.context].copy()

    # --- a layer ------------------------------------------------------------------------------------------------------
    def _layer(self, layer: int) -> Layer:
        spec = self.spec
        width = spec.heads * spec.head_dim
        return Layer(
            attention=self._attention(layer),
            rope=self._rope(spec.layer_rope(layer)),
            qkv=self._qkv(layer),
            output=self._linear("output", spec.hidden, width, layer),
            feed=self._experts(spec.experts, layer)
            if spec.experts and spec.expert_layers[layer]
            else self._dense(layer),
            attention_norm=self._norm("attention_norm", spec.hidden, layer),
            feed_norm=self._norm("feed_norm", spec.hidden, layer),
            attention_post_norm=self._norm("attention_post_norm", spec.hidden, layer),
            feed_post_norm=self._norm("feed_post_norm", spec.hidden, layer),
            q_norm=self._head_norm("q_norm", spec.heads, layer),
            k_norm=self._head_norm("k_norm", spec.kv_heads, layer),
        )

    def _attention(self, layer: int) -> Attention:
        s = self.spec
        slopes = alibi_slopes(s.heads) if s.positions == "alibi" else None
        return Attention(
            s.heads, s.kv_heads, s.head_dim, s.attention_scale, s.windows[layer], s.attention_softcap, slopes
        )

    def _rope(self, rope: RopeSpec | None) -> Rope | None:
        if rope is None:
            return None
        if self.rope_scaling is not None and rope == self.spec.rope:  # a local rope is never stretched
            rope = replace(rope, scaling=self.rope_scaling)
        if rope not in self.ropes:
            self.ropes[rope] = rope_table(rope, self.context, self.spec.context)
        return self.ropes[rope]

    def _qkv(self, layer: int) -> tuple[Weight, Weight, Weight]:
        spec = self.spec
        counts = (spec.heads, spec.kv_heads, spec.kv_heads)
        if not self.source.has("qkv"):
            q, k, v = (
                self._linear(name, count * spec.head_dim, spec.hidden, layer, permuted=count if name != "v" else 0)
                for name, count in zip("qkv", counts, strict=True)
            )
            return q, k, v
        sizes = [count * spec.head_dim for count in counts]
        fused, tensor = self.source.matrix("qkv", sum(sizes), spec.hidden, layer)
        bias = self.source.bias("qkv", sum(sizes), layer)
        if self.source.names.fused_qkv == "per_head":
            orders = [per_head_order(spec.heads, spec.head_dim, part) for part in range(3)]
            parts = [pick_rows(fused, order) for order in orders]
            biases = [None if bias is None else bias[order] for order in orders]
        else:
            starts = (0, sizes[0], sizes[0] + sizes[1])
            parts = [row_range(fused, start, size) for start, size in zip(starts, sizes, strict=True)]
            biases = [None if bias is None else bias[i : i + n] for i, n in zip(starts, sizes, strict=True)]
        q, k, v = (self.backend.weight(part, b) for part, b in zip(parts, biases, strict=True))
        self.file.drop(tensor)
        return q, k, v

    def _dense(self, layer: int) -> FeedForward:
        hidden, width = self.spec.hidden, self.spec.intermediate
        down = self._linear("down", hidden, width, layer)
        if not self.source.has("gate_up"):
            gate = self._linear("gate", width, hidden, layer) if self.source.has("gate") else None
            return FeedForward(gate, self._linear("up", width, hidden, layer), down)
        fused, tensor = self.source.matrix("gate_up", 2 * width, hidden, layer)
        bias = self.source.bias("gate_up", 2 * width, layer)
        gate, up = (
            self.backend.weight(row_range(fused, start, width), None if bias is None else bias[start : start + width])
            for start in (0, width)
        )
        self.file.drop(tensor)
        return FeedForward(gate, up, down)

    def _experts(self, experts: ExpertSpec, layer: int) -> Experts:
        hidden, width, count = self.spec.hidden, experts.intermediate, experts.count
        router = self._linear("router", count, hidden, layer)
        gate, up = self._expert_gate_up(count, width, layer)
        down = self._expert_weights("expert_down", count, hidden, width, layer)
        has_shared, shared = experts.shared > 0, experts.shared
        return Experts(
            router,
            gate,
            up,
            down,
            experts.used,
            experts.renormalize,
            experts.scale,
            shared_gate=self._linear("shared_gate", shared, hidden, layer) if has_shared else None,
            shared_up=self._linear("shared_up", shared, hidden, layer) if has_shared else None,
            shared_down=self._linear("shared_down", hidden, shared, layer) if has_shared else None,
            shared_router=self._shared_router(layer) if has_shared else None,
        )

    def _expert_gate_up(self, count: int, width: int, layer: int) -> tuple[Sequence[Weight], Sequence[Weight]]:
        hidden = self.spec.hidden
        if self.source.find("expert_gate_up", layer) is None:
            gate = self._expert_weights("expert_gate", count, width, hidden, layer)
            return gate, self._expert_weights("expert_up", count, width, hidden, layer)
        fused, tensor = self.source.stack("expert_gate_up", count, 2 * width, hidden, layer)
        members = [stack_member(fused, i, 2 * count) for i in range(2 * count)]  # gate 0, up 0, gate 1, up 1, ...
        weights = [self.backend.weight(member) for member in members]
        self.file.drop(tensor)
        return weights[0::2], weights[1::2]

    def _expert_weights(self, name: str, count: int, rows: int, inputs: int, layer: int) -> Sequence[Weight]:
        """One weight per expert, from one stacked tensor or one tensor per expert."""
        first = self.source.take(name, layer)
        if len(first.shape) != 3:
            return [self._pack_named(name, rows, inputs, layer, expert) for expert in range(count)]
        stacked, tensor = self.source.stack(name, count, rows, inputs, layer)
        weights = [self.backend.weight(stack_member(stacked, i, count)) for i in range(count)]
        self.file.drop(tensor)
        return weights

    def _shared_router(self, layer: int) -> Weight:
        """One row [1, hidden]; GGUF has it as a vector."""
        tensor = self.source.take("shared_router", layer)
        if tensor.shape not in ((self.spec.hidden,), (1, self.spec.hidden)):
            raise FormatError(f"{self.file.path.name}: tensor {tensor.name} has shape {tensor.shape}")
        return self._pack(Matrix(tensor.type, tensor.raw, 1, self.spec.hidden), None, tensor)

    # --- pieces -------------------------------------------------------------------------------------------------------
    def _linear(self, name: str, rows: int, inputs: int, layer: int = 0, *, permuted: int = 0) -> Weight:
        """A weight and its bias. permuted: number of heads whose rows GGUF may have permuted, 0 for none."""
        matrix, tensor = self.source.matrix(name, rows, inputs, layer)
        bias = self.source.bias(name, rows, layer)
        if permuted and self.source.names.permuted:
            order = half_order(permuted, self.spec.head_dim)
            matrix, bias = pick_rows(matrix, order), None if bias is None else bias[order]
        return self._pack(matrix, bias, tensor)

    def _pack_named(self, name: str, rows: int, inputs: int, layer: int, expert: int) -> Weight:
        matrix, tensor = self.source.matrix(name, rows, inputs, layer, expert)
        return self._pack(matrix, None, tensor)

    def _pack(self, matrix: Matrix, bias: F32 | None, tensor: Tensor) -> Weight:
        weight = self.backend.weight(matrix, bias)
        self.file.drop(tensor)
        return weight

    def _norm(self, name: str, width: int, layer: int = 0) -> Norm | None:
        """A norm that the family has, None otherwise."""
        if not self.source.has(name):
            return None
        weight = self.source.vector(name, width, layer) + self.source.names.norm_offset
        bias = self.source.bias(name, width, layer)
        return Norm(self.spec.norm, weight, bias, self.spec.eps)

    def _head_norm(self, name: str, heads: int, layer: int) -> Norm | None:
        """A norm of queries or keys: one weight per head input, or one per input of the whole row (OLMo 2)."""
        if not self.source.has(name):
            return None
        whole_row = self.source.take(name, layer).shape == (heads * self.spec.head_dim,)
        return self._norm(name, heads * self.spec.head_dim if whole_row else self.spec.head_dim, layer)
