"""What computes answers here, as records name it: model, build, instruction set, types, context."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import fields
from functools import cache
from pathlib import Path

import cutaway
from cutaway.assemble import Engine
from cutaway.errors import CutawayError
from cutaway.model import RopeScaling
from cutaway.native import _native
from cutaway.registry.model_hash import model_hash
from cutaway.xray.record import System


def system_of(
    engine: Engine, model: str | None = None, sha256: str | None = None, source: str | None = None
) -> System:
    """model: the name it goes by; None: its own. sha256: of its files; None: it is computed, which takes long the
    first time. source: what it was loaded from; None: its path."""
    manifest, options, about = engine.manifest, engine.options, engine.backend
    template = engine.template.source if engine.template is not None else None
    return System(
        model=model or (manifest.name if manifest is not None else str(engine.path)),
        sha256=_hash(engine) if sha256 is None else sha256,
        build=build(),
        instruction_set="" if about is None else about.instruction_set,
        backend=options.backend,
        kv_k=options.kv_k,
        kv_v=options.kv_v,
        context=engine.context,
        template=None if template is None else hashlib.sha256(template.encode(errors="surrogatepass")).hexdigest(),
        rope_scaling=None if options.rope_scaling is None else scaling_text(options.rope_scaling),
        threads=None if about is None else about.threads.count,
        source=source or str(engine.path),
    )


def _hash(engine: Engine) -> str:
    """Of a model in the cache its manifest knows it; "" where the files cannot be read any more."""
    if engine.manifest is not None:
        return engine.manifest.sha256
    try:
        return model_hash(engine.path, None, always=False)[0]
    except (OSError, CutawayError):
        return ""


@cache
def build() -> str:
    """The version, and a hash of the compiled extension: `0.1.0+3f2a9c0d1e4b`."""
    digest = "unknown"
    with contextlib.suppress(OSError, TypeError):
        digest = hashlib.blake2b(Path(str(_native.__file__)).read_bytes(), digest_size=6).hexdigest()
    return f"{cutaway.__version__}+{digest}"


def scaling_text(scaling: RopeScaling) -> str:
    """As `--rope-scaling` takes it: kind:factor,name=value."""
    found = [scaling.kind if scaling.factor is None else f"{scaling.kind}:{scaling.factor:g}"]
    for field in fields(scaling):
        value = getattr(scaling, field.name)
        if field.name not in ("kind", "factor") and value != field.default:
            name = "original" if field.name == "original_context" else field.name
            found.append(f"{name}={str(value).lower() if isinstance(value, bool) else value}")
    return ",".join(found)
