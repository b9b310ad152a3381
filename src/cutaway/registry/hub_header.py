"""The first megabytes of a hub file, as a sparse file of its full size: its header is all that a plan reads.

Everything behind what was fetched is a hole, which takes no room on the disk and reads as zeros; `open_model` checks
such a file as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cutaway.errors import FormatError
from cutaway.formats import ModelFile, open_model
from cutaway.registry.hub import HubFile, HubModel, find_on_hub, hub_errors
from cutaway.registry.sources import HubSource

FIRST = 4 << 20
MOST = 128 << 20
_WEIGHTS = (".gguf", ".safetensors")

Read = Callable[[HubModel, HubFile, int, int], bytes]
"""(model, file, begin, end) -> those bytes of it."""


@contextmanager
def header_of(source: HubSource, read: Read | None = None) -> Iterator[tuple[ModelFile, int]]:
    """The opened outline of a model on the hub, and how many bytes were fetched. Its values are not there.

    Raises ModelNotFoundError, DownloadError, and what `open_model` raises.
    """
    model = find_on_hub(source)
    with TemporaryDirectory(prefix="cutaway-header-") as name:
        folder = Path(name)
        fetched = {file.name: _fetch(model, file, folder, FIRST, read or _read) for file in model.files}
        while True:
            try:
                opened = open_model(_entry(model, folder))
            except FormatError:
                opened = None
            short = _short(model, opened, fetched)
            if not short:
                break
            if opened is not None:
                opened.close()
            for file in short:
                have = fetched[file.name]
                fetched[file.name] = _fetch(model, file, folder, 2 * have, read or _read, have)
        with opened or open_model(_entry(model, folder)) as whole:  # the latter only to raise what is wrong with it
            yield whole, sum(fetched.values())


def _entry(model: HubModel, folder: Path) -> Path:
    return folder if len(model.files) > 1 else folder / Path(model.files[0].name).name


def _short(model: HubModel, opened: ModelFile | None, fetched: dict[str, int]) -> list[HubFile]:
    """Files of which more must be fetched: all that can give more where nothing could be read yet; else those whose
    first tensor lies behind what was fetched, so that the header may go on in the hole."""
    growing = [f for f in model.files if fetched[f.name] < min(f.size, MOST) and f.name.endswith(_WEIGHTS)]
    if opened is None:
        return growing
    first = {path.name: 0 for path in opened.files}
    for number, path in enumerate(opened.files):
        first[path.name] = min((t.offset for t in opened.tensors.values() if t.file == number), default=0)
    behind = {name for name, offset in first.items() if offset > _of(fetched, name)}
    return [f for f in growing if Path(f.name).name in behind]


def _of(fetched: dict[str, int], name: str) -> int:
    return next(count for full, count in fetched.items() if Path(full).name == name)


def _fetch(model: HubModel, file: HubFile, folder: Path, count: int, read: Read, have: int = 0) -> int:
    """The first bytes of a file, of which `have` are there; all of it where it is no weights. Returns how many."""
    count = min(count, file.size, MOST) if file.name.endswith(_WEIGHTS) else file.size
    with (folder / Path(file.name).name).open("r+b" if have else "wb") as stream:
        stream.seek(have)
        stream.write(read(model, file, have, count))
        stream.truncate(file.size)
    return count


def _read(model: HubModel, file: HubFile, begin: int, end: int) -> bytes:
    with hub_errors(HubSource(model.repo, file.name)):
        from huggingface_hub import HfFileSystem

        path = f"{model.repo}/{file.name}"
        with HfFileSystem().open(path, "rb", revision=model.revision, block_size=1 << 20) as stream:
            stream.seek(begin)
            return bytes(stream.read(end - begin))
