"""How a replica came back into traffic: the cooldown that was over, and the scrapes that did it."""

from collections import deque

import attrs

from eventlog.record import Record
from trioroute.events import Ejected, Event, Live, Probing, Reading, Scraped, ScrapeFailed
from trioroute.replay.clock import local_iso, span
from trioroute.replay.read import decision_name

SHOWN = 3
"""So many scrapes before a change are named, the last ones; ``probing.good_scrapes`` is 2."""


@attrs.define
class WayBack:
    """Of one replica; ``good`` are its good scrapes since the last that failed, while it is out."""

    name: str
    ejected: Ejected | None = None
    probing_ms: int | None = None
    joined: bool = False
    good: deque[str] = attrs.field(factory=lambda: deque(maxlen=SHOWN))
    count: int = 0

    def concerns(self, record: Record, name: bytes) -> bool:
        """Whether ``take`` is to be given a row, beside those of the replica's health."""
        out = self.ejected is not None or not self.joined
        return out and record.kind == "Scraped" and name in record.body

    def take(self, record: Record, event: Event) -> str | None:
        """What to say of the step that ``event`` is; None where it is none, or its evidence lies
        before what was read."""
        if isinstance(event, Scraped):
            self._scraped(record, event)
        elif isinstance(event, Probing):
            return self._probes(record)
        elif isinstance(event, Live):
            return self._lives(record)
        elif isinstance(event, ScrapeFailed | Ejected):
            self._begin(event if isinstance(event, Ejected) else self.ejected)
        return None

    def _begin(self, ejected: Ejected | None) -> None:
        self.ejected, self.joined, self.probing_ms = ejected, True, None
        self.good.clear()
        self.count = 0

    def _scraped(self, record: Record, event: Scraped) -> None:
        reading = event.readings.get(self.name)
        if reading is None and self.name not in event.same:
            return
        place = decision_name(record.stream, record.version)
        told = "the same as before" if reading is None else _load(reading)
        self.good.append(f"{place} at {local_iso(record.at_ms)[11:23]}: {told}")
        self.count += 1

    def _probes(self, record: Record) -> str | None:
        ejected, self.probing_ms = self.ejected, record.at_ms
        if ejected is None or not self.good:
            return None
        over = span(max(0, record.at_ms - ejected.until_ms))
        scrapes = f"{self.count} good scrapes in a row" if self.count > 1 else "a good scrape"
        return f"PROBING: cooldown over for {over}, and {scrapes} ({'; '.join(self.good)})"

    def _lives(self, record: Record) -> str | None:
        probing_ms, joining, good = self.probing_ms, not self.joined, list(self.good)
        self._begin(None)
        if probing_ms is not None:
            long = span(record.at_ms - probing_ms)
            return f"LIVE: {long} in PROBING without a failure held against it"
        return f"LIVE: its first good scrape ({good[-1]})" if joining and good else None


def _load(reading: Reading) -> str:
    if reading.running is None or reading.waiting is None:
        return "load not told"
    return f"{reading.running} running, {reading.waiting} waiting"
