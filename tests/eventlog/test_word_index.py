"""The index of words: what is in it is found, and a file that is not what was written is told."""

import json
import random
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.conformance import some_entries
from eventlog.memory import MemoryStore
from eventlog.record import Head
from eventlog.word_index import BLOCK, BadPiece, Piece, WordIndex, mark

ROWS = 3 * BLOCK


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    made = MemoryStore()
    made.append("a", some_entries(ROWS), 0)
    return made


def head_at(store: MemoryStore, seq: int) -> Head:
    row = store.read(seq - 1, 1)[0]
    return Head(row.seq, row.chain)


def word(n: int) -> bytes:
    return b"word %d" % n


def written(directory: Path, store: MemoryStore, first: int = 1, last: int = ROWS) -> Piece:
    """Row n has the word n, every second one also "often"."""
    marks = [mark(word(seq), seq - first) for seq in range(first, last + 1)]
    marks += [mark(b"often", seq - first) for seq in range(first, last + 1) if seq % 2 == 0]
    random.Random(1).shuffle(marks)
    return WordIndex(directory, "w").write(first, head_at(store, last), marks, ("note",))


def rows(piece: Piece, store: MemoryStore, *words: bytes, of: str = "w") -> list[int]:
    with closing(WordIndex(piece.path.parent.parent, of).open(piece, store)) as opened:
        return opened.rows(words)


def test_every_word_is_found_in_its_rows(tmp_path: Path, store: MemoryStore) -> None:
    piece = written(tmp_path, store, 101)
    opened = WordIndex(tmp_path, "w").open(piece, store)
    assert all(opened.rows([word(n)]) == [n] for n in range(101, ROWS + 1))
    assert opened.rows([b"often"]) == [n for n in range(101, ROWS + 1) if n % 2 == 0]
    assert opened.rows([word(300), word(201), b"nowhere"]) == [201, 300]
    assert opened.rows([word(100)]) == opened.rows([]) == []
    assert opened.notes == ("note",)
    opened.close()


def test_a_piece_without_a_word_says_that_there_is_none(tmp_path: Path, store: MemoryStore) -> None:
    index = WordIndex(tmp_path, "w")
    opened = index.open(index.write(1, head_at(store, 9), [], ()), store)
    assert opened.rows([word(1)]) == []
    opened.close()


def test_of_pieces_that_overlap_the_longer_one_counts(tmp_path: Path, store: MemoryStore) -> None:
    index = WordIndex(tmp_path, "w")
    assert index.pieces() == []
    whole = written(tmp_path, store, 1, 200)
    part = written(tmp_path, store, 1, 100)
    after = written(tmp_path, store, 201, 300)
    assert index.pieces() == [whole, after]
    index.keep_only([part])
    assert index.pieces() == [part]


def test_a_changed_byte_is_told_wherever_it_is(tmp_path: Path, store: MemoryStore) -> None:
    piece = written(tmp_path, store, 1, 1000)
    good = piece.path.read_bytes()
    for place in range(0, len(good), 97):
        piece.path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(BadPiece):
            rows(piece, store, word(500))
    piece.path.write_bytes(good[:-1])
    with pytest.raises(BadPiece):
        rows(piece, store, word(500))
    piece.path.unlink()
    with pytest.raises(BadPiece, match="cannot be read"):
        rows(piece, store)


@pytest.mark.parametrize(
    "head",
    [b"", b"5", b"null", b"[]", b"{}", b'"format"', b"[" * 100_000, b"\xff"],
)
def test_a_first_line_that_is_something_else_is_told(
    tmp_path: Path, store: MemoryStore, head: bytes
) -> None:
    piece = written(tmp_path, store, 1, 100)
    piece.path.write_bytes(head + piece.path.read_bytes()[piece.path.read_bytes().index(b"\n") :])
    with pytest.raises(BadPiece):
        rows(piece, store, word(50))


@pytest.mark.parametrize("count", [None, "7", [], -1, 1.5, 10**13, 10**30])
def test_a_count_that_the_file_cannot_hold_is_told_before_so_much_is_read(
    tmp_path: Path, store: MemoryStore, count: object
) -> None:
    piece = written(tmp_path, store, 1, 100)
    head, rest = piece.path.read_bytes().split(b"\n", 1)
    told = json.dumps(json.loads(head) | {"count": count})
    piece.path.write_bytes(told.encode() + b"\n" + rest)
    with pytest.raises(BadPiece):
        rows(piece, store, word(50))


@pytest.mark.parametrize("name", ["rows-5-100.index", "rows-1-200.index", "rows-1-60.index"])
def test_a_piece_under_the_name_of_other_rows_is_told(
    tmp_path: Path, store: MemoryStore, name: str
) -> None:
    piece = written(tmp_path, store, 1, 100)
    piece.path.rename(piece.path.with_name(name))
    (renamed,) = WordIndex(tmp_path, "w").pieces()
    with pytest.raises(BadPiece, match="its name is that of other rows"):
        rows(renamed, store, word(50))


def test_a_piece_of_another_log_or_of_other_words_is_told(
    tmp_path: Path, store: MemoryStore
) -> None:
    piece = written(tmp_path, store, 1, 100)
    with pytest.raises(BadPiece, match="other words"):
        rows(piece, store, of="other")
    other = MemoryStore()
    other.append("b", some_entries(200), 0)
    with pytest.raises(BadPiece, match="another log"):
        rows(piece, other)
