"""Checks of the build: which kernels it uses here, and whether they compute what they must."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cutaway.errors import CutawayError
from cutaway.native import _native
from cutaway.ops.backends import open_backend
from cutaway.ops.protocol import Matrix, Ops, Step
from cutaway.xray.doctor.diagnosis import Diagnosis
from cutaway.xray.doctor.subject import Subject

VARIABLE = "CUTAWAY_ISA"


def instruction_set(subject: Subject) -> Iterator[Diagnosis]:
    """Whether the kernels use what the processor has."""
    best = str(_native.instruction_set(""))
    named = subject.environment.get(VARIABLE, "")
    if named:
        try:
            used = str(_native.instruction_set(named))
        except ValueError as error:
            yield Diagnosis(
                "error", "isa_invalid", f"${VARIABLE} names kernels that do not run here", f"{named!r}: {error}",
                "another machine's setting", f"unset {VARIABLE}",
            )  # fmt: skip
            return
        if used != best:
            yield Diagnosis(
                "warning", "isa_chosen", "slower kernels are used than this processor can run",
                f"${VARIABLE} is {named!r}: {used} instead of {best}", "the variable chooses them",
                f"unset {VARIABLE}",
            )  # fmt: skip
    elif best == "plain":
        yield Diagnosis(
            "warning", "isa_plain", "no vector kernels run on this processor", "kernels: plain",
            "the processor, or the virtual machine that shows it, has none of the instruction sets",
            "choose a processor type with AVX2 in the virtual machine's settings",
        )  # fmt: skip


def kernels(subject: Subject) -> Iterator[Diagnosis]:
    """Whether a small product comes out as NumPy has it: embedded rows times a matrix."""
    if subject.environment.get(VARIABLE) and list(instruction_set(subject))[:1]:
        return
    try:
        found, right = product()
    except CutawayError as error:
        yield Diagnosis("error", "backend_fails", "the kernels cannot be started", f"{error.code}: {error}")
        return
    off = float(np.abs(found - right).max())
    if not off < 1e-3:
        yield Diagnosis(
            "error", "kernels_wrong", "the compiled kernels compute wrong values here",
            f"a product of 64 x 64 floats is off by {off:g}",
            "a damaged build, or a defect of the processor or its memory",
            "install it again; compare with --backend reference",
        )  # fmt: skip


def product() -> tuple[np.ndarray, np.ndarray]:
    """Both float32 [4, 64]: by the kernels, and by NumPy."""
    from cutaway.ops.native.backend import NativeBackend

    backend = open_backend(threads=1)
    assert isinstance(backend, NativeBackend)
    random = np.random.default_rng(1)
    weight, rows = (random.normal(0, 0.1, (n, 64)).astype(np.float32) for n in (64, 4))
    table, packed = (Matrix("F32", a.view(np.uint8).reshape(-1), len(a), 64) for a in (rows, weight))
    held, made = backend.table(table), backend.weight(packed)
    numbers = np.arange(4, dtype=np.int32)
    step = Step(numbers, numbers, np.zeros(4, np.int32), (np.zeros((1, 1), np.int32),), numbers)

    def forward(ops: Ops, step: Step) -> np.ndarray:
        found: np.ndarray = ops.project(step, ops.embed(step, held, 1.0), None, [made])[0]
        return found

    found: np.ndarray = backend.drive(forward, step)
    return found, rows @ weight.T
