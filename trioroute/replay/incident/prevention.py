"""What would have prevented the harm of a span, proved from the recorded past.

The first row of each kind of harm is decided again under another setting, from its own past. What
the log cannot prove is not said. The rows folded for it are bounded, however long the log is.
"""

import attrs

from eventlog.errors import LogDamaged
from eventlog.record import Record
from trioroute.events import Dispatched, Ejected, Event, Failed, Refused, Released
from trioroute.projections import State
from trioroute.replay.incident.changed import Proof
from trioroute.replay.incident.harm import Harm, Kind
from trioroute.replay.incident.lessened import ROWS_AFTER, ROWS_BEFORE, sooner
from trioroute.replay.incident.prove_down import down_proof
from trioroute.replay.incident.prove_ejects import eject_proof
from trioroute.replay.incident.prove_ends import end_proof, shorter_proof
from trioroute.replay.incident.prove_pins import pin_proof
from trioroute.replay.incident.prove_refusals import refusal_proofs
from trioroute.replay.incident.prove_retries import Around, retry_proof, window_of
from trioroute.replay.incident.retaken import retaken
from trioroute.replay.incident.told import FirstCause, Prevention, Retaken
from trioroute.replay.incident.traffic import Traffic
from trioroute.replay.read import STREAM_PREFIX, CannotRead, Past, Source, decision_name
from trioroute.settings.errors import SettingsError

ROWS_MAX = 60_000
"""Rows that are folded for all proofs together; what needs more is not proved."""

AROUND_ROWS = 1000
"""So many rows before an eject and after it are looked at for the scrapes of its replica, and for
how requests ended there."""

NEAR = 10_000
"""So many rows are rather folded than a snapshot is read."""

PROOFS_MAX = 20
"""Kinds of harm that are looked into, the gravest first."""

_GRAVEST = ("eject", "orphaned", "end", "refused", "pin")


_NO_SETTING = {
    "died": "no setting of the router prevents that it died",
    "stall": "no setting of the router prevents that an engine stops generating: eject.stall_after "
    "is how soon new requests pass it over, timeouts.idle how soon its streams are given up",
    "log": "no setting of the router makes a log writable that is not",
    "overload": "no setting of the router makes room where requests wait at every LIVE replica: "
    "admission.max_in_flight lets them wait in the router instead",
    "change": "no setting of the router prevents what was done on purpose",
}
"""By the kind of a first cause that is no row of ``Harms``."""


class TooFar(Exception):
    """A proof needs more rows than all may take."""


_NO_PROOF = (TooFar, CannotRead, LogDamaged, SettingsError)


@attrs.define
class Prover:
    """``left``: rows that may still be read for proofs. ``latest_ms``: no good answer of the span
    had its first byte later; ``running`` requests had not ended with it."""

    source: Source
    left: int
    latest_ms: int | None = None
    running: int = 0
    _pasts: dict[str, Past] = attrs.field(factory=dict)

    def past(self, record: Record) -> Past:
        """The past of a row; to be asked for in the order of rows. Raises TooFar."""
        past = self._pasts.get(record.stream)
        if past is None or not 0 < record.version - past.state.position <= NEAR:
            past = self.source.past_before(record)
        self._spend(record.version - 1 - past.state.position)
        self._pasts[record.stream] = past
        self.source.fold_before_row(past, record)
        return past

    def state(self, record: Record) -> State:
        """Raises TooFar."""
        return self.past(record).state

    def _spend(self, rows: int) -> None:
        if not self._affords(rows):
            raise TooFar

    def _affords(self, rows: int) -> bool:
        if rows > self.left:
            return False
        self.left -= max(0, rows)
        return True

    def row(self, stream: str, version: int) -> Record:
        """Raises CannotRead where it is missing."""
        record = self.source.at(stream, version)
        if record is None:
            raise CannotRead(f"{decision_name(stream, version)} is missing")
        return record

    def prove(self, harm: Harm) -> list[Proof]:
        """What is said of it; several settings may have prevented the same row."""
        if harm.kind[0] == "orphaned":
            text = "no setting of the router prevents that requests end with a router that dies"
            return [Proof(None, text)]
        record = self.row(*_place(harm.place))
        event = self.source.event(record)
        if harm.kind[0] == "refused" and isinstance(event, Refused):
            state = self.state(record)
            return list(refusal_proofs(self.source, self._affords, record, event, state))
        proofs = [self._proof(harm, record, event)]
        if isinstance(event, Released):
            state = self.state(record)
            proofs.append(shorter_proof(event, harm.times, self.latest_ms, self.running, state))
        return [proof for proof in proofs if proof is not None]

    def _proof(self, harm: Harm, record: Record, event: Event | None) -> Proof | None:
        match harm.kind[0], event:
            case "eject", Ejected():
                return self._eject(harm, record, event)
            case "end", Released():
                return self._end(record, event)
            case "pin", Dispatched():
                state = self.state(record)
                return pin_proof(harm.place, record.at_ms, event, harm.kind, state)
            case _:
                return None

    def _eject(self, harm: Harm, record: Record, event: Ejected) -> Proof | None:
        led = self.row(record.stream, record.version - 1)
        before, state = self.source.event(led), self.state(led)
        if before is None:
            return None
        proof = eject_proof(harm.place, led.at_ms, event, before, state)
        if proof is None or proof.change is None or not self._affords(2 * AROUND_ROWS):
            return proof
        begin = max(0, record.version - AROUND_ROWS)
        rows = self.source.stream(record.stream, begin, record.version + AROUND_ROWS)
        around = ((row, self.source.event(row)) for row in rows)
        return down_proof(proof, record, event, state, around) or proof

    def lessen(self, harm: Harm, until: int) -> Proof | None:
        """What ejecting sooner would have done around an eject of a LIVE replica."""
        stream, version = _place(harm.place)
        first = self.source.reader.read_stream(stream, 0, 1)[0].version
        past = self.past(self.row(stream, max(first, version - ROWS_BEFORE)))
        self._spend(ROWS_BEFORE + ROWS_AFTER)
        return sooner(self.source, past, until, version, scrapes=harm.kind[2] == "scrape")

    def _end(self, record: Record, event: Released) -> Proof | None:
        sent = self.row(record.stream, event.dispatch)
        dispatched, state = self.source.event(sent), self.state(record)
        if not isinstance(dispatched, Dispatched):
            return None
        decision = decision_name(record.stream, event.dispatch)
        if event.outcome != "upstream_error":
            return end_proof(decision, event, state)
        around = self._around(sent, record, dispatched.model)
        earlier = self._earlier(sent, dispatched)
        if len(earlier) != len(dispatched.earlier):
            return None
        return retry_proof(decision, (sent.at_ms, dispatched), event, earlier, around, state)

    def _earlier(self, sent: Record, dispatched: Dispatched) -> list[Failed]:
        """How its request's earlier attempts ended."""
        wanted, found = set(dispatched.earlier), list[Failed]()
        if not wanted:
            return found
        self._spend(sent.version - min(wanted))
        for row in self.source.stream(sent.stream, min(wanted), sent.version - 1):
            event = self.source.event(row) if row.kind == "Failed" else None
            if isinstance(event, Failed) and event.dispatch in wanted:
                found.append(event)
        return found

    def _around(self, sent: Record, ended: Record, model: str) -> Around:
        """What the rows tell of the budget of retries."""
        widest_ms, narrow_ms = window_of(sent.at_ms, ended.at_ms)
        after = self.source.reader.last_until(widest_ms - 1)
        self._spend(ended.seq - after)
        failed = requests = 0
        for row in self.source.records(after, ended.seq - 1):
            if row.stream != ended.stream:
                continue
            failed += row.kind == "Failed"
            if row.kind == "Dispatched" and row.version <= sent.version and row.at_ms > narrow_ms:
                event = self.source.event(row)
                first = isinstance(event, Dispatched) and event.attempt == 1
                requests += first and getattr(event, "model", None) == model
        return Around(failed, requests)


def _place(name: str) -> tuple[str, int]:
    router, _, version = name.rpartition("/")
    return STREAM_PREFIX + router, int(version)


@attrs.frozen
class Prevented:
    """``items``: the first cause's and the gravest first. ``unproved`` were left out."""

    items: tuple[Prevention, ...]
    retaken: tuple[Retaken, ...]
    unproved: int


def prevented(
    source: Source, harms: list[Harm], cause: FirstCause | None, until: int, traffic: Traffic
) -> Prevented:
    """What is proved of each kind of harm in a span that ends with row ``until``."""
    ranked = sorted(harms, key=lambda harm: _rank(harm, cause))
    prover = Prover(source, ROWS_MAX, traffic.latest_ms + 1 or None, traffic.running())
    found = dict[Kind, list[Prevention]]()
    unproved = len(ranked[PROOFS_MAX:])
    for harm in sorted(ranked[:PROOFS_MAX], key=lambda one: _place(one.place)):
        try:
            proofs = prover.prove(harm)
        except _NO_PROOF:
            unproved += 1
            continue
        found[harm.kind] = [one.told(harm.kind[0], harm.place, harm.times) for one in proofs]
    for harm in _first_ejects(ranked):
        try:
            less = prover.lessen(harm, until)
        except _NO_PROOF:
            continue
        if less is not None:
            found.setdefault(harm.kind, []).append(less.told("eject", harm.place, harm.times))
    items = [one for harm in ranked for one in found.get(harm.kind, ())]
    pins = [one for one in items if one.harm == "pin"]
    return Prevented(
        (*_of_cause(cause, harms), *items),
        _retaken(prover, pins, until),
        unproved,
    )


def _first_ejects(harms: list[Harm]) -> list[Harm]:
    """Of LIVE replicas, the first one by requests and the first one by scrapes."""
    first: dict[str, Harm] = {}
    for harm in sorted(harms, key=lambda one: _place(one.place)):
        if harm.kind[:2] == ("eject", "LIVE"):
            first.setdefault(harm.kind[2], harm)
    return list(first.values())


def _of_cause(cause: FirstCause | None, harms: list[Harm]) -> tuple[Prevention, ...]:
    """What is said of a first cause that is not among ``harms``."""
    text = None if cause is None else _NO_SETTING.get(cause.kind)
    if text is None or cause is None or cause.place is None:
        return ()
    if any(harm.place == cause.place for harm in harms):
        return ()
    return (Proof(None, text).told("cause", cause.place, 1),)


def _retaken(prover: Prover, pins: list[Prevention], until: int) -> tuple[Retaken, ...]:
    """From the first decision on that left its pin; of several routers, those of its router."""
    if not pins:
        return ()
    place = min(_place(one.row) for one in pins)
    try:
        past = prover.past(prover.row(*place))
        return retaken(prover.source, past, until, pins)
    except _NO_PROOF:
        return ()


def _rank(harm: Harm, cause: FirstCause | None) -> tuple[bool, int]:
    first = cause is not None and harm.place == cause.place
    return not first, _GRAVEST.index(harm.kind[0])
