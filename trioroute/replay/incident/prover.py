"""One row of harm, decided again from its own past: what the proofs have in common.

The rows folded for all of them are bounded, however long the log is.
"""

from collections.abc import Mapping

import attrs

from eventlog.errors import LogDamaged
from eventlog.record import Record
from trioroute.events import Dispatched, Ejected, Failed, Refused, Released
from trioroute.projections import State
from trioroute.replay.incident.changed import Proof
from trioroute.replay.incident.harm import Harm
from trioroute.replay.incident.lessened import ROWS_AFTER, ROWS_BEFORE, sooner
from trioroute.replay.incident.plain_harm import (
    delayed_words,
    end_words,
    lost_words,
    refused_words,
    retried_words,
)
from trioroute.replay.incident.prove_down import down_proof
from trioroute.replay.incident.prove_ejects import eject_proof
from trioroute.replay.incident.prove_ends import end_proof, shorter_proof
from trioroute.replay.incident.prove_line import delay_proof
from trioroute.replay.incident.prove_pins import pin_proof
from trioroute.replay.incident.prove_refusals import refusal_proofs, room_change
from trioroute.replay.incident.prove_retries import Around, retry_proof, window_of
from trioroute.replay.incident.told import Late
from trioroute.replay.read import STREAM_PREFIX, CannotRead, Past, Source, decision_name
from trioroute.settings.errors import SettingsError

AROUND_ROWS = 1000
"""So many rows before an eject and after it are looked at for the scrapes of its replica, and for
how requests ended there."""

NEAR = 10_000
"""So many rows are rather folded than a snapshot is read."""


class TooFar(Exception):
    """A proof needs more rows than all may take."""


NO_PROOF = (TooFar, CannotRead, LogDamaged, SettingsError)


@attrs.define
class Prover:
    """``left``: rows that may still be read for proofs. ``latest_ms``: no good answer of the span
    had its first byte later; ``running`` requests had not ended with it; ``late`` are the first
    that were delayed, by where their time went."""

    source: Source
    left: int
    latest_ms: int | None = None
    running: int = 0
    late: Mapping[str, Late] = attrs.field(factory=dict)
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
        """What is said of it: never nothing. Several settings may have prevented the same row."""
        kind = harm.kind[0]
        if kind == "orphaned":
            text = "no setting of the router prevents that requests end with a router that dies"
            return [Proof(None, text)]
        if kind == "delayed":
            return [self._delayed(harm.kind[1], self.late[harm.kind[1]])]
        record = self.row(*place_of(harm.place))
        event = self.source.event(record)
        match kind, event:
            case "refused", Refused():
                return self._refused(harm, record, event)
            case "retried", Dispatched():
                earlier = self._earlier(record, event)
                last = earlier[-1] if len(earlier) == len(event.earlier) else None
                return [retried_words(harm.place, last, event.tried[-1])]
            case "end", Released():
                return self._ended(harm, record, event)
            case "lost", Failed():
                name = decision_name(record.stream, event.dispatch)
                return [lost_words(name, self._sent(record, event), event)]
            case "eject", Ejected():
                proof = self._eject(harm, record, event)
                return [] if proof is None else [proof]
            case "pin", Dispatched():
                proof = pin_proof(harm.place, record.at_ms, event, harm.kind, self.state(record))
                return [] if proof is None else [proof]
        return []

    def _sent(self, ended: Record, event: Released | Failed) -> Dispatched | None:
        """What an end ends. Raises CannotRead where its row is missing."""
        sent = self.source.event(self.row(ended.stream, event.dispatch))
        return sent if isinstance(sent, Dispatched) else None

    def _refused(self, harm: Harm, record: Record, event: Refused) -> list[Proof]:
        """Where a setting is proved to help, what is not proved of others is not said."""
        state = self.state(record)
        proofs = list(refusal_proofs(self.source, self._affords, record, event, state))
        proved = [proof for proof in proofs if proof.change is not None]
        return proved or proofs[:1] or [refused_words(harm.place, event)]

    def _ended(self, harm: Harm, record: Record, event: Released) -> list[Proof]:
        proof, state = self._end(record, event), self.state(record)
        if proof is None:
            name = decision_name(record.stream, event.dispatch)
            proof = end_words(name, self._sent(record, event), event, state)
        shorter = shorter_proof(event, harm.times, self.latest_ms, self.running, state)
        return [proof] if shorter is None else [proof, shorter]

    def _delayed(self, part: str, late: Late) -> Proof:
        """Of the line only a number is proved: that with it the request had not stood there."""
        if part == "line" and not late.delay.tried_ms:
            stream, version = place_of(late.decision)
            came = self.source.reader.last_until(late.at_ms)
            begin = next((row for row in self.source.records(came) if row.stream == stream), None)
            if begin is not None and begin.version <= version:
                self._spend(version - begin.version)
                rows = self.source.stream(stream, begin.version - 1, version)
                dispatched = ((row.at_ms, self.source.event(row)) for row in rows)
                change = room_change(late.at_ms, late.model or "", self.state(begin))
                proof = delay_proof(late, change, dispatched)
                if proof is not None:
                    return proof
        return delayed_words(part, late)

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
        stream, version = place_of(harm.place)
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


def place_of(name: str) -> tuple[str, int]:
    """Stream and number of a row by its name."""
    router, _, version = name.rpartition("/")
    return STREAM_PREFIX + router, int(version)
