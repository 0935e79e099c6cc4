"""CPU time and memory of a whole process tree, read from /proc."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Stat:
    """What /proc/PID/stat says: the parent, and CPU seconds with those of children waited for."""

    parent: int
    cpu_s: float


def parse_stat(text: str, ticks_per_s: int = TICKS_PER_S) -> Stat:
    """One line of /proc/PID/stat. The command may hold spaces and parentheses: proc(5)."""
    fields = text[text.rindex(")") + 2 :].split()
    user, system, child_user, child_system = (int(field) for field in fields[11:15])
    return Stat(int(fields[1]), (user + system + child_user + child_system) / ticks_per_s)


def parse_memory(smaps_rollup: str) -> int:
    """Bytes of proportional set size (shared pages counted by share) in a smaps_rollup text."""
    for line in smaps_rollup.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError("no Pss in smaps_rollup")


def tree_of(root: int, stats: Mapping[int, Stat]) -> list[int]:
    """``root`` and everything that descends from it."""
    found = [root] if root in stats else []
    for pid in found:
        found.extend(child for child, stat in stats.items() if stat.parent == pid)
    return found


def all_stats(proc: Path = Path("/proc")) -> dict[int, Stat]:
    stats: dict[int, Stat] = {}
    for path in proc.iterdir():
        if path.name.isdigit():
            try:
                stats[int(path.name)] = parse_stat((path / "stat").read_text())
            except (OSError, ValueError):
                continue  # it ended meanwhile
    return stats


def cpu_s(root: int) -> float:
    """CPU seconds spent so far by the tree under ``root``. 10 ms is the kernel's step."""
    stats = all_stats()
    return sum(stats[pid].cpu_s for pid in tree_of(root, stats))


def memory_bytes(root: int) -> int:
    """Memory of the tree under ``root`` now."""
    return sum(_memory_of(tree_of(root, all_stats())))


def open_files(pid: int) -> int:
    """Descriptors of one process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def threads(pid: int) -> int:
    """Threads of one process."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def _memory_of(pids: Iterable[int]) -> Iterable[int]:
    for pid in pids:
        try:
            yield parse_memory(Path(f"/proc/{pid}/smaps_rollup").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
