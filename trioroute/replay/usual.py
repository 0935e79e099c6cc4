"""How soon a first byte usually comes, and from when on a request counts as delayed.

A request is compared with others of its model, of its kind of answer (whole, or piece by piece: the
first byte of a whole one comes at its end) and of about its size of prompt, on whichever replica.
What is usual is learnt from an even sample of the log, from well before the span to its end, so
that trouble of less than half of that time is no measure. All times are those that a client
waited: in the router's line, and for the first byte.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial

import attrs

from eventlog.record import Record
from trioroute.events import Dispatched, Released
from trioroute.replay.kept import dispatch_kept, event_kept, not_found
from trioroute.replay.pace import in_one_piece
from trioroute.replay.plain import SMALLEST, size_of
from trioroute.replay.read import Source
from trioroute.replay.requested import Delay, Usual

BEFORE_MS = 3_600_000
"""The sample begins so long before the span, or twice the span's length if that is more."""

PLACES, ROWS_EACH, ANSWERS_EACH = 64, 200, 40
"""The sample: so many places, so many rows at each, and the answers that end in them, at most so
many of a place. A log that is shorter is looked at whole."""

ANSWERS_MIN = 20
"""Fewer do not say what is usual."""

TOO_FEW = f"fewer than {ANSWERS_MIN} answers of a model say how soon its first byte usually comes"

BLOCK = 20
"""Slow is the second latest of so many answers of a replica."""

TIMES_USUAL, TIMES_SLOW, LATER_MS = 3, 2, 100
"""Delayed: so many times the usual, so many times what is slow, and so much later than usual."""

_NEVER = 1 << 62

Kind = tuple[str | None, bool | None, int | None]
"""Model, whether the answer was in one piece, and size of the prompt; None: any."""


@attrs.frozen
class Answer:
    """A good first attempt; ``first_byte_ms`` after its request had come."""

    kind: Kind
    replica: str
    first_byte_ms: int


@attrs.frozen
class Usuals:
    """``least_ms``: no request is delayed whose first byte came sooner."""

    by: dict[Kind, Usual]
    least_ms: int

    def knows(self, model: str | None) -> bool:
        """Whether anything says what is usual for a model."""
        return any(kind[0] == model for kind in self.by)

    def of(self, kind: Kind) -> Usual | None:
        """What a request is compared with. Where few had its size of prompt, with all of its kind
        of answer, unless its prompt is larger than any whose size is known by itself."""
        found = self.by.get(kind)
        if found is not None:
            return found
        model, whole, size = kind
        sizes = [one[2] for one in self.by if one[:2] == (model, whole) and one[2] is not None]
        if size is not None and sizes and size > max(sizes):
            return None
        apart = (model, True, None) in self.by or (model, False, None) in self.by
        if whole is None or not apart:
            return self.by.get((model, None, None))
        return self.by.get((model, whole, None))

    def delay_of(
        self,
        model: str | None,
        size: int | None,
        before_ms: int,
        ttfb_ms: int | None,
        took_ms: int,
        *,
        whole: bool,
        waited_ms: int,
    ) -> Delay | None:
        """Of a request whose last attempt was sent ``before_ms`` after it had come, with
        ``waited_ms`` in line just before. ``ttfb_ms`` None: its client left without a byte.
        ``whole``: the answer was in one piece.

        None where it was not delayed, or nothing says what is usual.
        """
        first_byte_ms = before_ms + (took_ms if ttfb_ms is None else ttfb_ms)
        if first_byte_ms < self.least_ms:
            return None
        usual = self.of((model, None if ttfb_ms is None else whole, size))
        if usual is None or usual.usual_ttfb_ms is None or usual.delayed_from_ms is None:
            return None
        if first_byte_ms < usual.delayed_from_ms:
            return None
        return Delay(
            first_byte_ms=first_byte_ms,
            waited_ms=waited_ms,
            tried_ms=max(0, before_ms - waited_ms),
            usual_ttfb_ms=usual.usual_ttfb_ms,
            delayed_from_ms=usual.delayed_from_ms,
            left=ttfb_ms is None,
        )

    def told(self) -> tuple[Usual, ...]:
        """By model, kind of answer and size, as far as each is known by itself."""
        kept = [
            usual
            for (model, whole, size), usual in self.by.items()
            if (size is not None and whole is not None)
            or (size is None and not self._finer(model, whole))
        ]
        return tuple(sorted(kept, key=lambda one: (one.model or "", one.prompt_from_bytes or 0)))

    def _finer(self, model: str | None, whole: bool | None) -> bool:
        if whole is None:
            return any(one[0] == model and one[1] is not None for one in self.by)
        return any(one[:2] == (model, whole) and one[2] is not None for one in self.by)


NOTHING = Usuals({}, _NEVER)


def usual_of(source: Source, from_ms: int, to_ms: int) -> Usuals:
    """What is usual for the requests of a span. Raises what the reader raises but LogDamaged."""
    return learnt(_sampled(source, from_ms, to_ms))


def learnt(answers: Iterable[Answer]) -> Usuals:
    """In order of time."""
    kinds = defaultdict[Kind, defaultdict[str, list[int]]](lambda: defaultdict(list))
    for one in answers:
        model, whole, size = one.kind
        for kind in (one.kind, (model, whole, None), (model, None, size), (model, None, None)):
            kinds[kind][one.replica].append(one.first_byte_ms)
    by = {
        kind: _usual(kind, list(replicas.values()))
        for kind, replicas in kinds.items()
        if sum(map(len, replicas.values())) >= ANSWERS_MIN
    }
    least_ms = min((one.delayed_from_ms or _NEVER for one in by.values()), default=_NEVER)
    return Usuals(by, least_ms)


def _usual(kind: Kind, replicas: list[list[int]]) -> Usual:
    """Blocks are of one replica, for one that is always slow is no measure for the others."""
    times = sorted(ms for one in replicas for ms in one)
    blocks = [one[at : at + BLOCK] for one in replicas for at in range(0, len(one), BLOCK)]
    rest = [ms for block in blocks if len(block) < BLOCK for ms in block]
    blocks += [rest[at : at + BLOCK] for at in range(0, len(rest), BLOCK)]
    slow = sorted(sorted(block)[-2] for block in blocks if len(block) == BLOCK)
    usual_ms, slow_ms = times[(len(times) - 1) // 2], slow[(len(slow) - 1) // 2]
    model, whole, size = kind
    return Usual(
        model=model,
        whole=whole,
        prompt_from_bytes=None if size is None else 0 if size == SMALLEST else 4 ** (size - 1),
        prompt_to_bytes=None if size is None else 4**size,
        answers=len(times),
        usual_ttfb_ms=usual_ms,
        slow_ttfb_ms=slow_ms,
        delayed_from_ms=max(TIMES_USUAL * usual_ms, TIMES_SLOW * slow_ms, usual_ms + LATER_MS),
    )


def _sampled(source: Source, from_ms: int, to_ms: int) -> Iterator[Answer]:
    reader, before_ms = source.reader, max(BEFORE_MS, 2 * (to_ms - from_ms))
    oldest = next(source.kept(0, reader.head().seq, lambda _: None), None)
    if oldest is None:
        return
    begin = max(oldest.seq - 1, reader.last_until(from_ms - before_ms - 1))
    rows = reader.last_until(to_ms) - begin
    whole, lost = rows <= PLACES * ROWS_EACH, partial(not_found, source)
    for place in range(1 if whole else PLACES):
        after = begin + place * rows // PLACES
        left = rows if whole else ANSWERS_EACH
        for record in source.kept(after, after + (rows if whole else ROWS_EACH), lost):
            answer = _answer(source, record) if record.kind == "Released" and left else None
            if answer is not None:
                left -= 1
                yield answer


def _answer(source: Source, record: Record) -> Answer | None:
    event = event_kept(source, record)
    if not isinstance(event, Released) or event.outcome != "ok" or event.ttfb_ms is None:
        return None
    sent = dispatch_kept(source, (record.stream, event.dispatch))
    if not isinstance(sent, Dispatched) or sent.attempt > 1:
        return None
    whole = in_one_piece(event.ttfb_ms, event.duration_ms, event.completion_tokens)
    kind = (sent.model, whole, size_of(sent.prompt_bytes))
    return Answer(kind, sent.replica, sent.waited_ms + event.ttfb_ms)
