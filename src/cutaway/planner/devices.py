"""Devices by their memory and bandwidth, as their makers' data sheets have them. Nothing here was measured by us."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cutaway.errors import ParameterError
from cutaway.model import ModelSpec
from cutaway.planner.memory import MemoryPlan

READ_SHARE = 0.6
"""The share of a device's bandwidth that decoding is assumed to reach; printed wherever a rate is derived from it."""


@dataclass(frozen=True, slots=True)
class Device:
    """count devices of `memory` bytes each. bandwidth: bytes a second of one, None where only a size was given."""

    name: str
    count: int
    memory: int
    bandwidth: float | None

    @property
    def total(self) -> int:
        return self.count * self.memory


# Decimal gigabytes: what a driver keeps for itself is about the difference to the binary ones.
_KNOWN: Mapping[str, tuple[int, float]] = {
    "t4": (16, 320e9), "l4": (24, 300e9), "rtx3060": (12, 360e9), "rtx3090": (24, 936e9), "rtx4090": (24, 1008e9),
    "rtx5090": (32, 1792e9), "l40s": (48, 864e9), "a6000": (48, 768e9), "v100-32g": (32, 900e9),
    "a100-40g": (40, 1555e9), "a100-80g": (80, 2039e9), "h100": (80, 3350e9), "h200": (141, 4800e9),
    "b200": (180, 8000e9),
}  # fmt: skip
DEVICES = tuple(_KNOWN)
SIZES_GB = (2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 1024)
"""What the smallest device for so many bytes is chosen from."""


def parse_device(text: str) -> Device:
    """"h100", "24gb", "2x24gb", "4xa100-80g". Raises ParameterError."""
    found = re.fullmatch(r"(?:(\d{1,4})x)?(?:(\d{1,5})(?:gb|g)|([a-z][a-z0-9-]*))", text.strip().lower())
    if found is None or (found[3] and found[3] not in _KNOWN) or (found[1] and not int(found[1])):
        raise ParameterError(
            f"device is {text!r}; it must be this, a size such as 24gb or 2x24gb, or one of {', '.join(DEVICES)}"
        )
    count = int(found[1] or 1)
    if found[2]:
        return Device(text.lower(), count, int(found[2]) * 10**9, None)
    size, bandwidth = _KNOWN[found[3]]
    return Device(text.lower(), count, size * 10**9, bandwidth)


@dataclass(frozen=True, slots=True)
class DeviceNeed:
    """Bytes that a model needs there. weights: as in the file, with the embedding table, which is not mapped there.
    largest: of the device that holds the most, where whole layers are dealt out evenly."""

    device: Device
    weights: int
    kv: int
    scratch: int
    largest: int

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.scratch

    @property
    def fits(self) -> bool:
        return self.largest <= self.device.memory


def device_need(plan: MemoryPlan, spec: ModelSpec, device: Device, kv_read: int) -> tuple[DeviceNeed, float | None]:
    """What a plan needs there, and the seconds of a step that reads all weights that a token needs and `kv_read` bytes
    of keys and values, at READ_SHARE of the bandwidth; None where that is not known.

    Devices of a group work one after another on their layers, so more of them hold more and are not faster.
    """
    file = sum(w.file for w in plan.weights)
    weights = file + plan.vectors // 2 + (0 if spec.tied else plan.mapped)
    layers = -(-spec.layers // device.count)
    ends = plan.mapped * (1 if spec.tied else 2)
    part = (max(weights - ends, 0) + plan.kv_bytes) * layers // spec.layers
    largest = part + (ends if device.count == 1 else ends // (1 if spec.tied else 2)) + plan.scratch
    largest = min(largest, weights + plan.kv_bytes + plan.scratch)
    need = DeviceNeed(device, weights, plan.kv_bytes, plan.scratch, largest)
    if device.bandwidth is None:
        return need, None
    return need, (weights * active_share(spec) + kv_read) / (READ_SHARE * device.bandwidth)


def active_share(spec: ModelSpec) -> float:
    """The part of the weights that one token needs: all of a dense model, `used` of `count` experts."""
    if spec.experts is None:
        return 1.0
    e, width = spec.experts, spec.heads * spec.head_dim
    expert = 3 * e.intermediate * spec.hidden * sum(spec.expert_layers)
    attention = (2 * width + 2 * spec.kv_heads * spec.head_dim) * spec.hidden * spec.layers
    dense = 3 * spec.intermediate * spec.hidden * (spec.layers - sum(spec.expert_layers))
    shared = 3 * e.shared * spec.hidden * sum(spec.expert_layers)
    rest = attention + dense + shared + spec.vocab * spec.hidden
    return (rest + e.used * expert) / (rest + e.count * expert)


def smallest_size(total: int) -> str:
    """The smallest of the usual sizes that holds so many bytes: "24 GB"."""
    fitting = next((size for size in SIZES_GB if size * 10**9 >= total), None)
    return f"{fitting} GB" if fitting else "more than 1 TB"
