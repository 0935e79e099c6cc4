"""What a report is made of, on a screen, in Markdown and on a page."""

import attrs

from trioroute.replay.clock import local_iso


@attrs.frozen
class Block:
    """A heading, sentences, and a table if ``columns`` are not empty. ``right``: numbers."""

    title: str
    said: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    right: tuple[str, ...] = ()


def clock_time(at_ms: int) -> str:
    return local_iso(at_ms)[:23].replace("T", " ")
