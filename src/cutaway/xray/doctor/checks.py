"""The table of checks, and an examination: all of them in their order. A new check is a function and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from cutaway.xray.doctor import (
    build,
    clock,
    config,
    encoding,
    environment,
    machine,
    model_files,
    request,
    server,
    template,
    tokenizer,
)
from cutaway.xray.doctor.diagnosis import Diagnosis, Severity
from cutaway.xray.doctor.subject import Subject

Check = Callable[[Subject], Iterator[Diagnosis]]
ORDER: tuple[Severity, ...] = ("error", "warning", "note", "unknown")
"""The worst first."""
STATUS = {"error": 4, "warning": 3}
"""The exit status by the worst finding; 0 for others. 1, 2 and 130 keep the meaning that they have everywhere."""

MODEL: dict[str, Check] = {
    "model name": model_files.name,
    "model header": model_files.header,
    "model memory": model_files.memory,
    "model content": model_files.content,
    "vocabulary": tokenizer.vocabulary,
    "special ids": tokenizer.special_ids,
    "round trip": tokenizer.round_trip,
    "template": template.rendering,
    "rendered prompt": template.rendered_prompt,
    "template origin": template.publisher,
}
MACHINE: dict[str, Check] = {
    "processor quota": machine.processor_quota,
    "affinity": machine.affinity,
    "memory kills": machine.memory_kills,
    "other load": machine.other_load,
    "instruction set": build.instruction_set,
    "kernels": build.kernels,
    "console": environment.console,
    "variables": environment.variables,
    "proxy": environment.proxy,
    "cache": environment.cache,
    "clock": clock.behind,
    "clock frequency": clock.frequency,
}
CONFIG: dict[str, Check] = {
    "config": config.contents,
    "config shadowed": config.shadowed,
    "config models": config.named_models,
    "config threads": config.threads,
    "port": config.port,
}
SERVER: dict[str, Check] = {
    "server ended": server.ended,
    "server restarted": server.restarted,
    "server answers": server.silent,
    "clock skew": clock.skew,
}
FILE: dict[str, Check] = {
    "file encoding": encoding.source,
    "file damage": encoding.damage,
    "file as a body": encoding.body,
    "file and tokenizer": encoding.tokenizer,
    "file and console": encoding.console,
}
REQUEST: dict[str, Check] = {
    "record": request.record,
    "ending": request.ending,
    "waiting": request.waiting,
    "tokens": request.tokens,
}


@dataclass(frozen=True, slots=True)
class Examination:
    """checks: the name of each that ran and what it found, in their order. seconds: what they took."""

    checks: tuple[tuple[str, tuple[Diagnosis, ...]], ...]
    seconds: float

    @property
    def findings(self) -> tuple[Diagnosis, ...]:
        """The worst first, and among equals in the order of the checks."""
        found = [one for _, each in self.checks for one in each]
        return tuple(sorted(found, key=lambda one: ORDER.index(one.severity)))

    @property
    def status(self) -> int:
        """The exit status."""
        return max((STATUS.get(one.severity, 0) for one in self.findings), default=0)


def examine(subject: Subject, checks: Mapping[str, Check] | None = None) -> Examination:
    """Run the checks that apply: of the model itself, of the chain of configuration, of the request; or only these."""
    began = perf_counter()
    done = tuple((name, tuple(check(subject))) for name, check in (checks or applying(subject)).items())
    return Examination(done, perf_counter() - began)


def applying(subject: Subject) -> dict[str, Check]:
    """The parts of the table for this subject. A machine without a model has its configuration and its servers."""
    alone = subject.machine and subject.model is None and subject.file is None and subject.request is None
    parts = (
        (MODEL, subject.model is not None), (MACHINE, subject.machine), (CONFIG, subject.config is not None or alone),
        (SERVER, subject.url is not None or alone), (FILE, subject.file is not None),
        (REQUEST, subject.request is not None),
    )  # fmt: skip
    return {name: check for checks, applies in parts if applies for name, check in checks.items()}


def examination_json(found: Examination) -> dict[str, Any]:
    """As a JSON object. state: the worst that a check found, or "ok"."""
    states = {
        name: min((one.severity for one in each), key=ORDER.index, default="ok") for name, each in found.checks
    }
    return {
        "record": "examination",
        "checks": [{"check": name, "state": state} for name, state in states.items()],
        "findings": [asdict(one) for one in found.findings],
        "seconds": round(found.seconds, 3),
        "status": found.status,
    }
