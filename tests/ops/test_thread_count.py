"""The default number of threads, on machines made of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutaway.ops.thread_count import Threads, choose_threads, cpu_quota

V1 = "sys/fs/cgroup/cpu,cpuacct"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def machine(root: Path, siblings: list[str], **of_each: list[int]) -> Path:
    """of_each: a file below cpuN for every core, "/" written as "__"."""
    cpu = "sys/devices/system/cpu/cpu"
    files = {f"{cpu}{n}/topology/core_cpus_list": text for n, text in enumerate(siblings)}
    for name, values in of_each.items():
        files |= {f"{cpu}{n}/{name.replace('__', '/')}": str(value) for n, value in enumerate(values)}
    return write(root, files)


def cores(count: int) -> frozenset[int]:
    return frozenset(range(count))


def test_a_thread_for_each_core(tmp_path: Path) -> None:
    assert choose_threads(root=machine(tmp_path, ["0", "1", "2"]), allowed=cores(3)) == Threads(3, "3 cores")


def test_nothing_known_of_the_machine(tmp_path: Path) -> None:
    assert choose_threads(root=tmp_path, allowed=cores(5)).count == 5


@pytest.mark.parametrize(("gain", "count"), [(1.04, 2), (1.05, 4), (1.3, 4), (0.7, 2)])
def test_siblings_count_where_they_gain(tmp_path: Path, gain: float, count: int) -> None:
    asked = []

    def measured(few: int, many: int) -> float:
        asked.append((few, many))
        return gain

    root = machine(tmp_path, ["0,2", "1,3", "0,2", "1,3"])
    assert choose_threads(root=root, allowed=cores(4), gain=measured).count == count
    assert asked == [(2, 4)]


def test_siblings_outside_the_mask_do_not_count(tmp_path: Path) -> None:
    root = machine(tmp_path, ["0-1", "0-1", "2-3", "2-3"])

    def never(few: int, many: int) -> float:
        raise AssertionError

    assert choose_threads(root=root, allowed=frozenset({1, 2}), gain=never).count == 2
    assert choose_threads(root=root, allowed=frozenset({0, 1, 2})).count == 2


def test_slow_cores_are_left_out(tmp_path: Path) -> None:
    root = machine(tmp_path, ["0", "1", "2", "3"], cpufreq__cpuinfo_max_freq=[5000, 5200, 3800, 3800])
    assert choose_threads(root=root, allowed=cores(4)) == Threads(2, "2 cores (the slow ones among 4 left out)")
    assert choose_threads(root=root, allowed=frozenset({2, 3})).count == 2, "all that there are"
    root = machine(tmp_path, ["0", "1", "2", "3"], cpu_capacity=[1024, 1024, 1024, 446])
    assert choose_threads(root=root, allowed=cores(4)).count == 3, "a capacity says more than a clock"
    write(root, {"sys/devices/cpu_core/cpus": "0", "sys/devices/cpu_atom/cpus": "1-3"})
    assert choose_threads(root=root, allowed=cores(4)).count == 1


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"sys/fs/cgroup/a/b/cpu.max": "max 100000"}, None),
        ({"sys/fs/cgroup/a/b/cpu.max": "150000 100000"}, 1.5),
        ({"sys/fs/cgroup/a/cpu.max": "200000 100000", "sys/fs/cgroup/a/b/cpu.max": "300000 100000"}, 2.0),
        ({"sys/fs/cgroup/cpu.max": "50000 100000"}, 0.5),  # a container sees its own group as the root
        ({"sys/fs/cgroup/unified/a/cpu.max": "100000 50000"}, 2.0),
        ({"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"}, None),
        ({"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "250000", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"}, 2.5),
        ({f"{V1}/cpu.cfs_quota_us": "1000", f"{V1}/cpu.cfs_period_us": "2000"}, 0.5),
        ({"sys/fs/cgroup/a/b/cpu.max": "what is this"}, None),
    ],
)  # fmt: skip
def test_the_smallest_quota_on_the_path(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    write(tmp_path, {"proc/self/cgroup": "9:name=systemd:/s\n4:cpu,cpuacct:/x/y\n0::/a/b"} | files)
    assert cpu_quota(tmp_path) == quota


@pytest.mark.parametrize(("quota", "count"), [(0.3, 1), (1.0, 1), (1.05, 1), (1.5, 2), (2.0, 2), (7.0, 4)])
def test_a_quota_bounds_the_threads(tmp_path: Path, quota: float, count: int) -> None:
    root = machine(tmp_path, ["0", "1", "2", "3"])
    write(root, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": f"{int(quota * 100000)} 100000"})
    found = choose_threads(root=root, allowed=cores(4))
    assert found.count == count
    assert ("control group" in found.why) == (count < 4)


def test_a_surplus_leaves(tmp_path: Path) -> None:
    root = machine(tmp_path, ["0", "1"])
    assert choose_threads(2, root=root, allowed=cores(2)) == Threads(2, "as requested")
    assert choose_threads(7, root=root, allowed=cores(2)) == Threads(2, "7 were requested, 2 cores may be used", 5)
    write(root, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "100000 100000"})
    found = choose_threads(2, root=root, allowed=cores(2))
    assert found.warnings == ["threads: 2 were requested, the control group allows 1 of 2 cores, so 1 work"]
    assert choose_threads(1, root=root, allowed=cores(2)).warnings == []


def test_siblings_may_be_asked_for(tmp_path: Path) -> None:
    assert choose_threads(4, root=machine(tmp_path, ["0,2", "1,3", "0,2", "1,3"]), allowed=cores(4)).count == 4


def test_this_machine() -> None:
    found = choose_threads()
    assert found.count >= 1 and found.why
