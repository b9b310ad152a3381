"""The served models: loaded at the start or on first use, unloaded when another model needs their memory, always within
one memory budget.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from cutaway.assemble import Engine
from cutaway.config import Config, ModelConfig, parse_bytes
from cutaway.errors import CutawayError, MemoryShortError
from cutaway.ops.host_memory import available_memory
from cutaway.planner import readable_bytes
from cutaway.registry import resolve
from cutaway.server.models.aliases import Names, check_pin
from cutaway.server.models.served_model import Served, describe, look, open_engine, with_defaults
from cutaway.server.transport.errors import ApiError
from cutaway.text.chat.clock import parse_date
from cutaway.trace import NULL, Recorder

Tell = Callable[..., None]
"""Reports an event: tell(event, **facts)."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Keeps a model loaded until it is released. alias: the request's name of the model, if it is not the served
    name."""

    served: Served
    engine: Engine
    alias: str | None


class Roster:
    """Used from the event loop only. Long operations run in a thread of their own, one model at a time."""

    def __init__(self, models: Sequence[Served], names: Names, config: Config, tell: Tell) -> None:
        self.models = {served.name: served for served in models}
        self.names = names
        said = config.server.memory
        self.budget = parse_bytes(said) if said is not None else available_memory()
        self.failed: Exception | None = None  # why a model of the start could not be loaded
        self._always_hash = config.server.verify == "always"
        self._tell = tell
        self._loading = asyncio.Lock()
        self._loads: set[asyncio.Task[None]] = set()
        self._thread = ThreadPoolExecutor(1, "cutaway-load")

    @property
    def ready(self) -> bool:
        """Whether all models of the start have been loaded and no engine has died. Unloading a model and loading it
        again does not change this."""
        started = all(served.fingerprint for served in self.models.values() if served.at_start)
        return started and not any(served.dead for served in self.models.values())

    @property
    def taken(self) -> int:
        """Bytes of the budget that loaded models use."""
        return sum(
            s.plan.total for s in self.models.values() if s.plan is not None and s.state not in ("unloaded", "failed")
        )

    # --- a model's life ---------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Load the models of the start. A failure is kept in `failed` for the code that started the server."""
        try:
            for served in self.models.values():
                if served.at_start:
                    async with self._loading:
                        await self._load(served)
        except Exception as error:
            self.failed = error

    @contextlib.asynccontextmanager
    async def lease(self, asked: str | None, request_id: str) -> AsyncIterator[Lease]:
        """The model that a request names, loaded, until the end of the block. Raises ApiError."""
        lease = await self.take(asked, request_id)
        try:
            yield lease
        finally:
            self.give(lease)

    async def take(self, asked: str | None, request_id: str) -> Lease:
        """Like `lease`, but the caller releases it."""
        name, pin = self.names.find(asked, request_id)
        served = self.models[name]
        if (
            served.at_start
            and served.engine is None
            and served.state in ("unloaded", "loading")
            and not served.fingerprint
        ):
            raise ApiError(503, f"{name} is being loaded", code="model_loading", retry_after=2)
        served.users += 1
        try:
            if served.engine is None or served.state != "ready":
                await self._load_on_use(served)
            engine = served.engine
            assert engine is not None
            check_pin(name, pin, served.sha256)
        except BaseException:
            served.users -= 1
            raise
        return Lease(served, engine, asked if asked != name else None)

    def give(self, lease: Lease) -> None:
        lease.served.users -= 1
        lease.served.last_use = monotonic()

    async def _load_on_use(self, served: Served) -> None:
        """Load a model. A load continues when its requester disconnects, because a thread cannot be stopped and its
        memory must be accounted for. Others may also wait for it."""
        load = asyncio.create_task(self._load_for_users(served))
        self._loads.add(load)
        load.add_done_callback(self._loads.discard)
        try:
            await asyncio.shield(load)
        except CutawayError as error:
            raise ApiError(
                503, f"{served.name} cannot be loaded: {error}", code=error.code, retry_after=30, figures=error.figures
            ) from error

    async def _load_for_users(self, served: Served) -> None:
        async with self._loading:
            if served.engine is None and served.users:
                await self._load(served)

    async def _load(self, served: Served) -> None:
        """Measure, free memory, load. The lock is held."""
        served.state = "loading"
        try:
            began = monotonic()
            await self._look(served)
            await self._make_room(served)
            engine = await self._opened(served)
            served.engine, served.state, served.error = engine, "ready", ""
            served.last_use = monotonic()
            describe(served, engine)
            assert served.plan is not None
            self._tell(
                "model loaded", model=served.name, sha256=served.sha256, context=engine.context,
                memory=readable_bytes(served.plan.total), seconds=round(monotonic() - began, 2),
            )  # fmt: skip
            if (backend := engine.backend) is not None:
                chosen = backend.threads
                self._tell("threads chosen", model=served.name, threads=chosen.count, why=chosen.why)
            for warning in engine.warnings:
                self._tell("model warning", model=served.name, warning=warning)
        except BaseException as error:
            served.state, served.error = "failed", str(error)
            self._tell("model failed", model=served.name, error=str(error))
            raise

    async def _opened(self, served: Served) -> Engine:
        """The engine. If the server ends meanwhile, the engine is closed as soon as it is loaded."""
        opening = self._thread.submit(open_engine, served)
        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_discard)
            raise

    async def look(self) -> None:
        """Hash and measure the models that are not loaded at the start, for /v1/models. Failures are reported on first
        use."""
        for served in self.models.values():
            with contextlib.suppress(CutawayError):
                async with self._loading:
                    if not served.sha256:
                        await self._look(served)

    async def _look(self, served: Served) -> None:
        looked = await self._in_thread(lambda: look(served.config, always_hash=self._always_hash))
        served.found, served.sha256, served.format = looked.found, looked.sha256, looked.format
        served.makeup, served.plan = looked.makeup, looked.plan
        self._tell(
            "model found", model=served.name, path=str(looked.found.path), sha256=looked.sha256, hashed=looked.hashed
        )

    async def _make_room(self, served: Served) -> None:
        """Unload idle models, the least recently used first, until this one fits. Raises MemoryShortError."""
        assert served.plan is not None
        need = served.plan.total
        if self.budget is None:
            return
        if need > self.budget:
            raise MemoryShortError(
                f"{served.name} needs {need} bytes ({readable_bytes(need)}), and the budget for models is "
                f"{self.budget} ({readable_bytes(self.budget)})",
                hint="give it a smaller context or fewer contexts, or the server more memory",
                figures={"needed_bytes": need, "budget_bytes": self.budget},
            )
        while self.taken > self.budget:  # served's own bytes are in `taken` while it is loading
            idle = [s for s in self.models.values() if s.state == "ready" and not s.users]
            if not idle:
                others = ", ".join(f"{s.name} ({s.users} requests)" for s in self.models.values() if s.state == "ready")
                raise MemoryShortError(
                    f"{served.name} needs {readable_bytes(need)}; {readable_bytes(self.taken - need)} of "
                    f"{readable_bytes(self.budget)} are taken by models in use: {others}",
                    hint="try again when they are idle",
                    figures={"needed_bytes": need, "taken_bytes": self.taken - need, "budget_bytes": self.budget},
                )
            await self._unload(min(idle, key=lambda s: s.last_use))

    async def _unload(self, served: Served) -> None:
        served.state = "unloading"
        engine, served.engine = served.engine, None
        if engine is not None:
            await self._in_thread(engine.close)
        del engine
        served.state = "unloaded"
        self._tell("model unloaded", model=served.name)

    async def close(self) -> None:
        """Close every engine and with it the requests that still run."""
        async with self._loading:
            for served in self.models.values():
                await self._unload(served)
        self._thread.shutdown()

    async def _in_thread(self, work: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)


def _discard(opening: Future[Engine]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def served_models(config: Config, recorder: Recorder = NULL) -> tuple[list[Served], Names]:
    """The models that a config serves. recorder: observes all of them.

    Raises ConfigError, and ModelNotFoundError for an unknown name.
    """
    models: list[Served] = []
    for number, model in enumerate(config.models):
        name = model.name or _own_name(model)
        at_start = (model.load or ("start" if number == 0 else "use")) == "start"
        models.append(Served(name, with_defaults(model, config), at_start, recorder=recorder))
        models[-1].record_hashes = config.record.hashes
        models[-1].date = None if config.date is None else parse_date(config.date)
    aliases: Mapping[str, Any] = config.aliases or {}
    return models, Names([served.name for served in models], aliases)


def _own_name(model: ModelConfig) -> str:
    """The registry's name of the model, or the name of its file."""
    found = resolve(model.model, pull=False)
    if found.manifest is not None:
        return found.manifest.name
    return Path(found.path).stem if Path(found.path).is_file() else Path(found.path).name
