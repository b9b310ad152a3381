"""What this process has in memory, as its kernel, its C library and its interpreter account for it.

Sources: proc(5) (status, smaps), mallinfo(3), and the interpreter's own statistics of small objects. Each figure is
None where this system has no such account.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
_ARENAS = re.compile(rb"^(\d+) arenas \* (\d+) bytes/arena", re.MULTILINE)
_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ (\d+) *(.*)$")


@dataclass(frozen=True, slots=True)
class Resident:
    """Bytes of the process that lie in memory. anonymous: its own, which only swapping could take from it. file: of
    mapped files, which the system may drop and read again. shared: memory shared with others. swapped: anonymous
    memory that is not there now."""

    anonymous: int
    file: int
    shared: int
    swapped: int

    @property
    def mapped(self) -> int:
        """Of mapped files and of memory shared with others."""
        return self.file + self.shared


@dataclass(frozen=True, slots=True)
class Allocator:
    """Bytes that the C library's allocator has from the system: `used` by the program, `kept` free for later."""

    used: int
    kept: int


@dataclass(frozen=True, slots=True)
class Mappings:
    """Resident anonymous bytes by the kind of mapping they lie in. engine: mappings that ask for huge pages, as those
    of weights, pages and buffers do. libraries: written pages of mapped files (code that was relocated, variables).
    stacks: of the first thread; those of others are `unnamed`, as is all else that was mapped for no file. heap: the
    C library's first one."""

    engine: int
    libraries: int
    stacks: int
    heap: int
    unnamed: int

    @property
    def total(self) -> int:
        return self.engine + self.libraries + self.stacks + self.heap + self.unnamed


class _MallInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]  # ctypes wants a list


def resident(root: Path = Path("/proc/self")) -> Resident | None:
    """Cheap: the kernel keeps these counts."""
    with contextlib.suppress(OSError, KeyError, ValueError):
        lines = (line.split() for line in (root / "status").read_text().splitlines())
        found = {line[0]: int(line[1]) * 1024 for line in lines if len(line) == 3 and line[2] == "kB"}
        return Resident(found["RssAnon:"], found["RssFile:"], found["RssShmem:"], found.get("VmSwap:", 0))
    return None


def allocator() -> Allocator | None:
    """Over all arenas of the C library, with what it mapped apart. Some 20 microseconds."""
    with contextlib.suppress(OSError, AttributeError):
        ask = ctypes.CDLL(None).mallinfo2
        ask.restype = _MallInfo
        info: Any = ask()
        return Allocator(int(info.uordblks + info.hblkhd), int(info.fordblks))
    return None


def python_arenas() -> int | None:
    """Bytes that the interpreter has taken from the system for objects of up to 512 bytes; larger ones are the
    allocator's. Some 50 microseconds, with the interpreter's lock held."""
    with contextlib.suppress(OSError, AttributeError):
        found = _ARENAS.search(_interpreter_statistics())
        return int(found[1]) * int(found[2]) if found else None
    return None


def _interpreter_statistics() -> bytes:
    """What the interpreter writes of its small objects. Raises AttributeError where it has no such call."""
    libc = ctypes.CDLL(None)
    opened = libc.open_memstream
    opened.restype, libc.fclose.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p], [ctypes.c_void_p]
    write = ctypes.pythonapi._PyObject_DebugMallocStats
    write.argtypes, write.restype = [ctypes.c_void_p], ctypes.c_int
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = opened(ctypes.byref(text), ctypes.byref(size))
    if not stream:
        return b""
    try:
        write(stream)
    finally:
        libc.fclose(stream)  # the text is whole only now
        written = ctypes.string_at(text, size.value) if text else b""
        libc.free(text)
    return written


def mappings(root: Path = Path("/proc/self")) -> Mappings | None:
    """Walks all of the process's pages: some milliseconds, more for more memory."""
    kinds = dict.fromkeys(("engine", "libraries", "stacks", "heap", "unnamed"), 0)
    kind, count = "unnamed", 0
    with contextlib.suppress(OSError):
        for line in (root / "smaps").read_text(errors="replace").splitlines():
            if line.startswith("Anonymous:"):
                count = int(line.split()[1]) * 1024
            elif line.startswith("VmFlags:"):  # the last line of a mapping
                kinds["engine" if " hg" in line else kind] += count
            elif (mapping := _MAPPING.match(line)) is not None:
                kind = _kind(int(mapping[1]), mapping[2])
        return Mappings(**kinds)
    return None


def _kind(inode: int, name: str) -> str:
    if name == "[heap]":
        return "heap"
    if name.startswith("[stack"):
        return "stacks"
    return "libraries" if inode else "unnamed"
