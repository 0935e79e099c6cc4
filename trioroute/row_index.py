"""Which rows of a log are about a request or a session: made beside the log, used by replay.

The writer has no part in it: a process of its own reads what was committed, as for snapshots.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from eventlog import LogDamaged, LogReader, Record
from eventlog.reading import SqliteReader
from eventlog.record import Head
from eventlog.segments import SegmentFile, list_segments
from eventlog.word_index import BadPiece, Mark, OpenPiece, Piece, WordIndex, mark
from trioroute.events import (
    Bound,
    Dispatched,
    Event,
    Rebound,
    Refused,
    Spilled,
    Unbound,
    decode,
)

WORDS = "request session 1"
"""Raised whenever other words of a row, or of other kinds of rows, are in the index."""

REQUEST = ("Dispatched", "Refused")
SESSION = ("Dispatched", "Bound", "Spilled", "Rebound", "Unbound")
"""The kinds that tell of a request or of a session."""

PIECE_ROWS = 1_000_000
"""A piece covers so many rows at most: making one needs some 100 bytes of memory a row."""

OPEN_ROWS = 20_000
"""Of the segment that is written on, rows are indexed by so many at a time; fewer are searched."""

PAGE = 2000

NEWEST_STEP = 5000
"""Rows searched at a time where the newest are wanted: so many may be held."""

Progress = Callable[[int, int], None]
"""Told the last row indexed and the last there is."""


def index_of(log: Path) -> WordIndex:
    """The index of a log directory; it may be empty."""
    return WordIndex(log, WORDS)


def request_word(request_id: str) -> bytes:
    return b"request\0" + request_id.encode()


def session_word(digest: str) -> bytes:
    return b"session\0" + digest.encode()


def make_index(log: Path, progress: Progress | None = None) -> int:
    """Index what is not indexed yet, and remove what is of no use any more; how many rows were
    read. Raises LogError, UnreadableEvent, OSError."""
    index = index_of(log)
    read = 0
    kept: list[Piece] = []
    with SqliteReader.open(log) as reader:
        end = reader.head()
        files = list_segments(log)
        lasts = [(file.first - 1, True) for file in files[1:]] + [(end.seq, False)]
        for file, (last, closed) in zip(files, lasts, strict=True):
            for first, until in _due(file, last, index.pieces(), kept, closed=closed):
                try:
                    kept.append(_make(index, reader, first, until))
                except LogDamaged:
                    continue  # that part is searched, as far as it can be read
                read += until - first + 1
                if progress is not None:
                    progress(until, end.seq)
    index.keep_only(kept)
    return read


def _due(
    file: SegmentFile, last: int, there: Collection[Piece], kept: list[Piece], *, closed: bool
) -> Iterator[tuple[int, int]]:
    """What is to be indexed of a segment; pieces that stay are added to ``kept``. A part of
    PIECE_ROWS is one piece as soon as it is whole, and small ones until then."""
    first = file.first
    while first <= last:
        until = min(first + PIECE_ROWS - 1, last)
        whole = closed or until < last
        for piece in there:
            if first <= piece.first and piece.last <= until:
                if whole and (piece.first, piece.last) != (first, until):
                    continue
                if piece.first == first:
                    kept.append(piece)
                    first = piece.last + 1
        if first <= until and (whole or until - first + 1 >= OPEN_ROWS):
            yield first, until
        first = until + 1


def _make(index: WordIndex, reader: SqliteReader, first: int, until: int) -> Piece:
    marks: list[Mark] = []
    models: dict[str, None] = {}
    after = first - 1
    while page := reader.search(SESSION + REQUEST[1:], ("{",), after, until, PAGE):
        after = page[-1].seq
        for record in page:
            marks += [mark(word, record.seq - first) for word in _words(record, models)]
    last = reader.read(until - 1, 1)[0]
    return index.write(first, Head(last.seq, last.chain), marks, tuple(models))


def _words(record: Record, models: dict[str, None]) -> Iterator[bytes]:
    event = decode(record.kind, record.schema, record.body)
    if isinstance(event, Dispatched | Refused):
        yield request_word(event.request_id)
    if isinstance(event, Dispatched):
        models[event.model] = None
        if event.session is not None:
            yield session_word(event.session)
    elif isinstance(event, Bound | Spilled | Rebound | Unbound) and event.kind == "session":
        yield session_word(event.key)


def rows_with(
    reader: LogReader, index: WordIndex | None, kinds: Collection[str], words: dict[bytes, str]
) -> Iterator[Record]:
    """Rows of ``kinds`` that are about one of ``words`` (each with the text it is in a body), and
    rarely others, in order. What no usable piece covers is searched."""
    texts = list(words.values())
    if not texts:
        return
    end = reader.head().seq
    after = 0
    for opened in usable(index, reader):
        try:
            seqs = opened.rows(words)
        except BadPiece:
            continue
        yield from searched(reader, kinds, texts, after, opened.piece.first - 1)
        for seq in seqs:
            yield from (row for row in reader.read(seq - 1, 1) if row.kind in kinds)
        after = opened.piece.last
    yield from searched(reader, kinds, texts, after, end)


def newest_with(
    reader: LogReader,
    index: WordIndex | None,
    kinds: Collection[str],
    words: dict[bytes, str],
    search_most: int,
) -> Iterator[Record | None]:
    """As ``rows_with``, the newest row first. At most ``search_most`` rows that no usable piece
    covers are searched, by some thousands at a time; a None ends what is told where more are."""
    gap_end, left = reader.head().seq, search_most
    found = list(_rows_of_pieces(reader, index, words))
    oldest = reader.read(0, 1)[0].seq if gap_end else 1
    for first, last, seqs in (*reversed(found), (0, oldest - 1, [])):
        while gap_end > last:
            after = max(last, gap_end - min(NEWEST_STEP, left))
            yield from reversed(list(searched(reader, kinds, list(words.values()), after, gap_end)))
            left -= gap_end - after
            gap_end = after
            if left == 0 and gap_end > last:
                yield None
                return
        for seq in reversed(seqs):
            yield from (row for row in reader.read(seq - 1, 1) if row.kind in kinds)
        gap_end = first - 1


def _rows_of_pieces(
    reader: LogReader, index: WordIndex | None, words: Collection[bytes]
) -> Iterator[tuple[int, int, list[int]]]:
    """Of each usable piece its first and last row, and those of its rows that have a word."""
    for opened in usable(index, reader):
        with suppress(BadPiece):  # those rows are searched
            yield opened.piece.first, opened.piece.last, opened.rows(words)


def indexed_with(
    reader: LogReader, index: WordIndex | None, words: Collection[bytes]
) -> Iterator[Record]:
    """The rows that have one of ``words``, and rarely others, the newest first: of those that the
    index covers only. ``words`` may be many."""
    for _, _, seqs in reversed(list(_rows_of_pieces(reader, index, words))):
        for seq in reversed(seqs):
            yield from reader.read(seq - 1, 1)


def models_of(
    reader: LogReader, index: WordIndex | None, read: Callable[[Record], Event | None]
) -> list[str]:
    """The models of all decisions. What no usable piece covers is read, with ``read``."""
    models: dict[str, None] = {}
    after = 0
    ends = [(one.piece.first - 1, one.piece.last, one.notes) for one in usable(index, reader)]
    for until, last, notes in (*ends, (reader.head().seq, 0, ())):
        for record in searched(reader, ("Dispatched",), ('"model"',), after, until):
            event = read(record)
            if isinstance(event, Dispatched):
                models[event.model] = None
        models.update(dict.fromkeys(notes))
        after = last
    return list(models)


def usable(index: WordIndex | None, reader: LogReader) -> Iterator[OpenPiece]:
    """The pieces that are whole and of this log, each open until the next is asked for."""
    if index is None:
        return
    for piece in index.pieces():
        try:
            opened = index.open(piece, reader)
        except BadPiece:
            continue
        try:
            yield opened
        finally:
            opened.close()


def searched(
    reader: LogReader, kinds: Collection[str], texts: Collection[str], after: int, until: int
) -> Iterator[Record]:
    """Rows with ``after < seq <= until`` of ``kinds`` with one of ``texts`` in their body."""
    while after < until:
        page = reader.search(tuple(kinds), tuple(texts), after, until, PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].seq
