"""The write-ahead log beside the open segment: small, unless a foreign reader pins it."""

import logging
from pathlib import Path

import attrs
import trio

from eventlog.segments import list_segments

logger = logging.getLogger("trioroute.log")

WARN_BYTES = 128 << 20
"""The writer itself cuts it back to 16 MiB."""

LOOK_EVERY_S = 10.0


@attrs.define
class SideFile:
    """Tells once when the side file of ``directory`` outgrows ``warn_bytes``, and when it is over.

    Nothing of this project reads longer than one statement. A foreign program that keeps a
    transaction open keeps SQLite from folding the side file in, and it grows with each event.
    """

    directory: Path
    warn_bytes: int = WARN_BYTES
    told: bool = False

    def look(self) -> None:
        """One look at the newest segment; a file that is gone is of size 0."""
        segments = list_segments(self.directory)
        if not segments:
            return
        path = segments[-1].path.with_name(f"{segments[-1].path.name}-wal")
        try:
            size = path.stat().st_size
        except FileNotFoundError:  # sealed just now
            size = 0
        if size > self.warn_bytes and not self.told:
            logger.warning(
                "%s has grown to %d MiB: a program keeps a transaction open on the log, so it "
                "cannot be folded in; find it with `fuser -v %s` and let it end",
                path,
                size >> 20,
                path,
            )
        elif self.told and size <= self.warn_bytes:
            logger.info("%s is small again", path)
        self.told = size > self.warn_bytes

    async def run(self) -> None:
        """Look now and then, for ever."""
        while True:
            await trio.sleep(LOOK_EVERY_S)
            await trio.to_thread.run_sync(self.look)
