"""Finds a family's tensors in an opened file by our names, checks their shapes, and notes which were used."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field

from cutaway.errors import FormatError, UnsupportedError
from cutaway.formats import ModelFile, Tensor, dequantize, first_not_finite
from cutaway.model.spec import ModelSpec
from cutaway.model.tensor_names import NAMES, VISION, Names
from cutaway.model.transforms import transpose
from cutaway.ops.protocol import F32, Matrix


@dataclass(slots=True)
class TensorSource:
    """A ModelFile seen through a name table. `prefix` is what `{model}` stands for in this file.

    looks: whether the values of tensors are looked at. damaged: of the tensors taken, those that hold a NaN or an
    infinity, each with where.
    """

    file: ModelFile
    names: Names
    prefix: str
    used: set[str] = field(default_factory=set)
    looks: bool = False
    damaged: dict[str, str] = field(default_factory=dict)
    _looked: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, file: ModelFile, spec: ModelSpec) -> TensorSource:
        """The source for a file of this spec."""
        names = NAMES[file.format].get(spec.family)
        if names is None:
            raise UnsupportedError(f"{file.path.name}: {spec.family} is not supported as {file.format}")
        embedding = names.tensors["embedding"][0]
        prefixes = [p for p in names.prefixes if embedding.format(model=p) + ".weight" in file.tensors]
        if not prefixes:
            expected = embedding.format(model=names.prefixes[0])
            raise FormatError(f"{file.path.name}: tensor {expected}.weight is missing")
        return cls(file, names, prefixes[0])

    def has(self, name: str) -> bool:
        """Whether the family has such a tensor at all."""
        return name in self.names.tensors

    def find(self, name: str, layer: int = 0, expert: int = 0, suffix: str = "weight") -> Tensor | None:
        """The file's tensor, or None; it counts as used from then on."""
        for template in self.names.tensors.get(name, ()):
            stem = template.format(model=self.prefix, layer=layer, expert=expert)
            for spelled in (f"{stem}.{suffix}", *([stem] if suffix == "weight" else [])):
                tensor = self.file.tensors.get(spelled)
                if tensor is not None:
                    self.used.add(spelled)
                    return tensor
        return None

    def take(self, name: str, layer: int = 0, expert: int = 0, suffix: str = "weight") -> Tensor:
        """The file's tensor. Raises FormatError when it is missing."""
        tensor = self.find(name, layer, expert, suffix)
        if tensor is None:
            stems = self.names.tensors[name]
            shown = " or ".join(s.format(model=self.prefix, layer=layer, expert=expert) + f".{suffix}" for s in stems)
            raise FormatError(f"{self.file.path.name}: tensor {shown} is missing")
        self._look(tensor)
        return tensor

    def _look(self, tensor: Tensor) -> None:
        """Once a tensor, before it is packed."""
        if not self.looks or tensor.name in self._looked:
            return
        self._looked.add(tensor.name)
        first = first_not_finite(tensor.type, tensor.raw)
        if first is not None:
            row, column = divmod(first, tensor.shape[-1] if tensor.shape else 1)
            self.damaged[tensor.name] = f"row {row}, from input {column} on" if len(tensor.shape) > 1 else f"at {first}"

    def cautions(self) -> list[str]:
        """Warnings of what was taken."""
        if not self.damaged:
            return []
        shown = ", ".join(f"{name} ({where})" for name, where in list(self.damaged.items())[:4])
        more = f" and {len(self.damaged) - 4} more" if len(self.damaged) > 4 else ""
        return [
            f"tensors with values that are NaN or infinite: {shown}{more}; the file is damaged, "
            "and an answer that meets these values fails"
        ]

    def matrix(self, name: str, rows: int, inputs: int, layer: int = 0, expert: int = 0) -> tuple[Matrix, Tensor]:
        """A matrix [rows, inputs], turned if the file has it the other way; with the tensor, to drop when packed."""
        tensor = self.take(name, layer, expert)
        turned = name in self.names.transposed
        self._check(tensor, (inputs, rows) if turned else (rows, inputs))
        matrix = Matrix(tensor.type, tensor.raw, *((inputs, rows) if turned else (rows, inputs)))
        return (transpose(matrix) if turned else matrix), tensor

    def stack(self, name: str, count: int, rows: int, inputs: int, layer: int) -> tuple[Matrix, Tensor]:
        """`count` matrices [rows, inputs] in one tensor [count, rows, inputs], as one matrix of count * rows rows."""
        tensor = self.take(name, layer)
        self._check(tensor, (count, rows, inputs))
        return Matrix(tensor.type, tensor.raw, count * rows, inputs), tensor

    def vector(self, name: str, width: int, layer: int = 0, suffix: str = "weight") -> F32:
        """A float32 row [width], whatever float type it has."""
        tensor = self.take(name, layer, suffix=suffix)
        self._check(tensor, (width,))
        return dequantize(tensor.type, tensor.raw, tensor.shape)

    def bias(self, name: str, width: int, layer: int = 0) -> F32 | None:
        """The bias float32 [width] beside a weight, None where there is none. Missing ones that must be there raise."""
        if self.find(name, layer, suffix="bias") is None and name not in self.names.biases:
            return None
        return self.vector(name, width, layer, suffix="bias")

    def check_all_used(self) -> None:
        """Raises UnsupportedError when the file has tensors that nothing here reads: its results would be wrong."""
        unseen = [n for n in self.file.tensors if re.fullmatch(VISION, n)]
        if unseen:
            warnings.warn(
                f"{self.file.path.name}: text only: {len(unseen)} tensors of its vision part unused", stacklevel=2
            )
        ignored = re.compile("|".join((*self.names.ignored, VISION)))
        unused = sorted(n for n in self.file.tensors if n not in self.used and not ignored.fullmatch(n))
        if unused:
            shown = ", ".join(unused[:4]) + (f" and {len(unused) - 4} more" if len(unused) > 4 else "")
            raise UnsupportedError(f"{self.file.path.name}: tensors that this build does not use: {shown}")

    def _check(self, tensor: Tensor, expected: tuple[int, ...]) -> None:
        if tensor.shape != expected:
            raise FormatError(
                f"{self.file.path.name}: tensor {tensor.name} has shape {tensor.shape}, expected {expected}"
            )
