"""The process's own memory: the accounts of kernel, C library and interpreter follow what is allocated."""

from __future__ import annotations

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from pathlib import Path

import numpy as np

from cutaway.ops.process_memory import Mappings, Resident, allocator, mappings, python_arenas, resident

MB = 2**20


def test_resident_memory_follows_what_is_written_not_what_is_asked_for() -> None:
    before = resident()
    # New pages: what the C library gives may have been written before.
    pages = mmap(-1, 64 * MB, MAP_PRIVATE | MAP_ANONYMOUS)
    block = np.frombuffer(pages, np.uint8)
    asked = resident()
    block[::4096] = 1
    written = resident()
    assert before is not None and asked is not None and written is not None
    assert abs(asked.anonymous - before.anonymous) < 8 * MB
    assert 60 * MB < written.anonymous - before.anonymous < 72 * MB


def test_the_allocator_knows_what_it_gave() -> None:
    before = allocator()
    blocks = [bytearray(100_000) for _ in range(200)]
    after = allocator()
    assert before is not None and after is not None
    assert 18e6 < after.used - before.used < 24e6 and len(blocks) == 200


def test_small_objects_are_the_interpreters() -> None:
    before = python_arenas()
    objects = [float(i) for i in range(1_000_000)]
    after = python_arenas()
    assert before is not None and after is not None
    assert 12 * MB < after - before < 38 * MB, "some may find room in arenas that are there"
    assert objects[-1] == 999_999.0


def test_mappings_together_are_the_anonymous_memory() -> None:
    found, total = mappings(), resident()
    assert found is not None and total is not None
    assert abs(found.total - total.anonymous) < 4 * MB
    assert 0 < found.libraries < total.anonymous and found.stacks > 0


def test_where_there_is_no_account_nothing_is_claimed(tmp_path: Path) -> None:
    assert resident(tmp_path) is None and mappings(tmp_path) is None
    (tmp_path / "status").write_text("Name:\tx\nVmRSS:\t  12 kB\n")
    assert resident(tmp_path) is None
    (tmp_path / "status").write_text("RssAnon:\t 8 kB\nRssFile:\t 4 kB\nRssShmem:\t 0 kB\n")
    assert resident(tmp_path) == Resident(8192, 4096, 0, 0)
    (tmp_path / "smaps").write_text(
        "7f00-7f01 rw-p 00000000 08:01 77    /lib/x y.so\nAnonymous:  4 kB\nVmFlags: rd\n"
        "7f02-7f03 rw-p 00000000 00:00 0 \nAnonymous: 8 kB\nVmFlags: rd wr hg \n"
        "7f04-7f05 rw-p 0 00:00 0  [heap]\nAnonymous: 12 kB\nVmFlags: rd wr\n"
        "7f06-7f07 rw-p 00000000 00:00 0  [anon:name]\nAnonymous: 16 kB\nVmFlags: rd\n"
    )
    assert mappings(tmp_path) == Mappings(8192, 4096, 0, 12288, 16384)
