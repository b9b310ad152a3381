"""The model of a record, loaded as it was when the record was made."""

from __future__ import annotations

from typing import cast

from cutaway.assemble import Backend, Engine
from cutaway.errors import RecordError
from cutaway.ops.backends import BACKENDS
from cutaway.ops.protocol import KV_ITEM_BYTES, KVType
from cutaway.xray.record import RequestRecord


def engine_of(record: RequestRecord, name: str | None = None, *, threads: int | None = None) -> Engine:
    """The record's model, with its context, types of keys and values, RoPE scaling and backend.

    name: what the model is called here, if the record's name is another one's. Raises RecordError for values that no
    engine has, and what `Engine.load` raises.
    """
    system = record.system
    for what, value, known in (
        ("kv_k", system.kv_k, KV_ITEM_BYTES), ("kv_v", system.kv_v, KV_ITEM_BYTES),
        ("backend", system.backend, BACKENDS),
    ):  # fmt: skip
        if value not in known:
            raise RecordError(f"record.system.{what} is {value!r}; it must be one of {', '.join(map(str, known))}")
    return Engine.load(
        name or system.model, context=system.context, contexts=1, threads=threads,
        backend=cast(Backend, system.backend), kv_k=cast(KVType, system.kv_k), kv_v=cast(KVType, system.kv_v),
        rope_scaling=system.rope_scaling, max_requests=1, pull=False,
    )  # fmt: skip
