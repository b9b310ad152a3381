"""The owners of answers, for views that show a caller only its own requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from threading import Lock

KEPT = 4096
"""Answers that are remembered, the latest: also those that have ended, for steps that they had part in."""


@dataclass(frozen=True, slots=True)
class Owner:
    """caller: a hash of its key, or its address. request: its x-request-id."""

    caller: str
    request: str


class Owners:
    """The owners of the answers of one server, by model and the engine's number. Used from any thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int], Owner] = OrderedDict()
        self._lock = Lock()

    def add(self, model: str, ids: Iterable[int], owner: Owner) -> None:
        """These numbers are this owner's from now on: a model that was loaded again counts anew."""
        with self._lock:
            for id in ids:
                self._known[model, id] = owner
                self._known.move_to_end((model, id))
            while len(self._known) > KEPT:
                self._known.popitem(last=False)

    def find(self, model: str, id: int) -> Owner | None:
        return self._known.get((model, id))


@dataclass(frozen=True, slots=True)
class Eyes:
    """What a view may show. owners: of the answers; None: they all belong to the viewer. caller: the viewer; None: an
    admin, who sees everything."""

    model: str = ""
    owners: Owners | None = None
    caller: str | None = None

    @property
    def all(self) -> bool:
        return self.caller is None

    def owner(self, id: int, name: str = "") -> Owner:
        """name: the engine's own name of it, used where no owner is known."""
        found = None if self.owners is None else self.owners.find(self.model, id)
        return found or Owner("" if self.owners is not None else "local", name)

    def sees(self, id: int) -> bool:
        return self.all or self.owner(id).caller == self.caller

    def sees_key(self, key: Hashable) -> bool:
        """Whether pages may be shown that were written under this key: a caller and its salt."""
        return self.all or (isinstance(key, tuple) and bool(key) and key[0] is not None and key[0] == self.caller)


EVERYTHING = Eyes()
