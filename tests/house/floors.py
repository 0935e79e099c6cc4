"""Which package stands on which: imports point downwards only."""

from collections.abc import Iterator
from pathlib import Path

from tests.house.source import Source, imports, own_part, part_of

# A package may import those of a lower number, and of trioroute's dry code only (dry.py).
FLOORS = {
    "eventlog": 0,
    "events": 0,
    "clock": 0,
    "counted": 0,
    "nearest": 0,
    "printable": 0,
    "terminal": 1,
    "quantities": 0,
    "whole_lines": 0,
    "settings": 1,
    "projections": 1,
    "policy": 2,
    "router": 3,
    "snapshot": 4,
    "row_index": 4,
    "rare_gc": 0,
    "kept_memory": 0,
    "archived": 4,
    "recovery": 5,
    "last_loss": 5,
    "retain": 5,
    "free_ports": 4,
    "supervisor": 4,
    "slow_start": 5,
    "process_log": 4,
    "scrape": 4,
    "observe": 4,
    "engine": 4,
    "proxy": 5,
    "simulate": 5,
    "discovery": 5,
    "replay": 6,
    "tracing": 6,
    "own_watch": 6,
    "assembly": 7,
    "upkeep": 7,
    "changes": 8,
    "signals": 9,
    "admin_desk": 9,
    "serve": 10,
    "demo": 11,
    "cli": 12,
    "__main__": 13,
}
# ``assembly`` and ``serve`` wire these; none knows another, whatever floor it is on.
SEPARATE = frozenset({"proxy", "scrape", "discovery", "observe"})
WITHOUT_PROXY = frozenset({"simulate", "tools", "engine"})
TRIO_FILES = frozenset({"durability", "journal", "inline", "follow", "turn"})
SQLITE_FILES = frozenset({"sqlite", "schema", "segments"})


def upward_imports(source: Source) -> Iterator[str]:
    """Imports of trioroute's own packages that do not point downwards."""
    own = own_part(source)
    if own and own not in FLOORS:
        yield f"{source.where}: {own} has no floor yet: give it one in tests/house/floors.py"
        return
    for node, module in imports(source):
        target = part_of(module)
        if not module.startswith("trioroute") or target in {own, "", "__version__"}:
            continue
        if target not in FLOORS:
            yield source.found(node, f"imports {module}, which has no floor")
        elif FLOORS[target] >= FLOORS.get(own, 0):
            yield source.found(node, f"{own or 'trioroute'} imports {module} upwards or sideways")


def meddling_imports(source: Source) -> Iterator[str]:
    """Imports between packages that only ``serve`` may bring together."""
    own = source.where.split("/")[0] if source.where.startswith("tools/") else own_part(source)
    for node, module in imports(source):
        target = part_of(module) if module.startswith("trioroute") else ""
        if own in SEPARATE and target in SEPARATE - {own}:
            yield source.found(node, f"{own} imports {module}: let serve join them")
        if own in WITHOUT_PROXY and target == "proxy":
            yield source.found(node, f"{own} imports {module}: it must not share proxy's code")


def log_imports(source: Source) -> Iterator[str]:
    """What the event log imports and should not: its user, Trio or SQLite in the wrong file."""
    stem = Path(source.where).stem
    for node, module in imports(source):
        top = module.split(".")[0]
        if top == "trioroute":
            yield source.found(node, "imports trioroute: the log knows nothing of its user")
        if top == "trio" and stem not in TRIO_FILES:
            yield source.found(node, f"imports trio outside {', '.join(sorted(TRIO_FILES))}")
        sqlite = top in {"sqlite3", "sqlite_utils"}
        if sqlite and stem not in SQLITE_FILES and "sqlite" not in stem:
            yield source.found(node, f"imports {top} outside {', '.join(sorted(SQLITE_FILES))}")
