"""A router that is there but writes no more: a full disk, or it stands still. No row tells it."""

from itertools import pairwise

from eventlog.errors import LogDamaged
from eventlog.ownership import writer_of
from trioroute.replay.clock import now_ms, span
from trioroute.replay.read import NotFound, Source

ROWS = 200
"""So many rows before the end, of one run and under one ``scrape.interval``, say how long this
router is silent at most while all is well: every round of scrapes is rows."""

ROWS_MIN = 10

TIMES = 3
SILENT_MS = 5000
"""Any router may be silent for so long: a commit waits, a scrape takes its time."""


def silent_words(source: Source) -> str:
    """Empty where nobody writes the log, or its last row is not old for what came before it."""
    if source.directory is None or writer_of(source.directory) != "writing":
        return ""
    try:
        last = source.last()
        rows = source.reader.read(max(0, last.seq - ROWS), ROWS)
    except (NotFound, LogDamaged):
        return ""
    begun = [at for at, row in enumerate(rows) if row.kind in ("Started", "Configured")]
    times = [row.at_ms for row in rows[begun[-1] if begun else 0 :]]
    pauses = [after - before for before, after in pairwise(times)]
    silent_ms, longest_ms = now_ms() - last.at_ms, max(pauses, default=0)
    if (
        last.kind == "Stopped"
        or len(times) < ROWS_MIN
        or silent_ms < max(SILENT_MS, TIMES * longest_ms)
    ):
        return ""
    return (
        f"a router writes this log, but its last row is {span(silent_ms)} old, where the longest "
        f"pause before was {span(longest_ms)}: its disk may be full, or it stands still (its "
        "/readyz and its own output say which); what has happened since is not in the log"
    )
