"""The clauses E1 to E10 as tests that any store can be held to.

Subclass :class:`StoreConformance` in a pytest module (with a name that begins with ``Test``) and
implement :meth:`~StoreConformance.open`; pytest gives ``tmp_path``, and a Trio plugin runs the
coroutine tests. Only plain asserts: this module needs no test framework itself.
"""

import json
import threading
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

from eventlog.chain import verify_chain
from eventlog.errors import StoreClosed, VersionConflict
from eventlog.follow import follow
from eventlog.record import Entry, Head, Record, same_entries
from eventlog.store import Store

_E = TypeVar("_E", bound=Exception)


def some_entries(count: int, start: int = 0) -> list[Entry]:
    """Distinct entries, numbered from ``start``, with bodies beyond ASCII."""
    return [
        Entry("counted", 1, 1_000 + i, i, b'{"n":%d,"text":"\xc3\xa9"}' % i)
        for i in range(start, start + count)
    ]


def error_of(kind: type[_E], call: Callable[..., object], *arguments: object) -> _E:
    """The error of ``kind`` that ``call(*arguments)`` raises; AssertionError if it raises none."""
    try:
        call(*arguments)
    except kind as exc:
        return exc
    raise AssertionError(f"{kind.__name__} was not raised")


def read_all(store: Store, page: int = 1000) -> list[Record]:
    """The whole log, page by page."""
    records: list[Record] = []
    while found := store.read(records[-1].seq if records else 0, page):
        records += found
    return records


class StoreConformance:
    """Every promise of :class:`eventlog.store.Store`, for the store that ``open`` makes."""

    keeps = True
    """Whether a closed store's rows are there when ``open`` is called again."""

    def open(self, directory: Path) -> Store:
        """A store in ``directory``; the same one again after it was closed, if it keeps."""
        raise NotImplementedError

    def test_e1_a_refused_append_stores_none_of_its_entries(self, tmp_path: Path) -> None:
        """E1."""
        store = self.open(tmp_path)
        store.append("a", some_entries(2), 0)
        before = store.head()
        too_big = Entry("k", 1, 1 << 63, 0, b"{}")
        not_text = Entry("k", 1, 1, 0, b"\xff")
        for bad in ([*some_entries(2, 5), too_big], [*some_entries(2, 5), not_text], []):
            error_of(ValueError, store.append, "a", bad, 2)
        error_of(VersionConflict, store.append, "a", some_entries(3, 9), 1)
        assert store.head() == before
        assert len(read_all(store)) == 2
        assert store.append("a", some_entries(1, 2), 2).first == 3
        store.close()

    def test_e2_append_answers_its_first_and_last_seq(self, tmp_path: Path) -> None:
        """E2."""
        store = self.open(tmp_path)
        first, second = (
            store.append("a", some_entries(3), 0),
            store.append("b", some_entries(2), 0),
        )
        assert (first.first, first.last, first.already) == (1, 3, False)
        assert (second.first, second.last, second.already) == (4, 5, False)
        store.close()

    def test_e2_a_repeated_append_is_already_there(self, tmp_path: Path) -> None:
        """E2."""
        store = self.open(tmp_path)
        store.append("b", some_entries(1), 0)
        first = store.append("a", some_entries(3), 0)
        later = store.append("a", some_entries(2, 3), 3)
        for expected, given, where in ((0, some_entries(3), first), (3, some_entries(2, 3), later)):
            again = store.append("a", given, expected)
            assert again.already
            assert (again.first, again.last) == (where.first, where.last)
        assert store.head().seq == 6
        store.close()

    def test_e3_a_mismatch_names_the_actual_version(self, tmp_path: Path) -> None:
        """E3: a version ahead, one behind with other entries, and a repeat that goes further."""
        store = self.open(tmp_path)
        store.append("a", some_entries(3), 0)
        changed = [*some_entries(2), Entry("counted", 1, 1_002, 2, b'{"n":99}')]
        for expected, given in ((5, some_entries(1)), (0, changed), (0, some_entries(4))):
            error = error_of(VersionConflict, store.append, "a", given, expected)
            assert (error.stream, error.expected, error.actual) == ("a", expected, 3)
        assert store.stream_version("a") == 3
        store.close()

    def test_e4_streams_share_one_gapless_order(self, tmp_path: Path) -> None:
        """E4."""
        store = self.open(tmp_path)
        for round_ in range(5):
            store.append("a", some_entries(2, 2 * round_), 2 * round_)
            store.append("b", some_entries(1, round_), round_)
        records = read_all(store)
        assert [r.seq for r in records] == list(range(1, 16))
        assert [r.version for r in records if r.stream == "a"] == list(range(1, 11))
        assert store.read_stream("b") == [r for r in records if r.stream == "b"]
        assert (store.stream_version("a"), store.stream_version("nobody")) == (10, 0)
        store.close()

    def test_e4_a_reader_that_saw_n_has_seen_all_below(self, tmp_path: Path) -> None:
        """E4: read from other threads while one appends."""
        store = self.open(tmp_path)
        seen: list[list[int]] = [[], []]
        done = threading.Event()

        def watch(mine: list[int]) -> None:
            while not (finished := done.is_set()) or mine[-1:] != [120]:
                mine += [r.seq for r in store.read(mine[-1] if mine else 0, 7)]
                if finished and not store.read(mine[-1] if mine else 0, 1):
                    return

        threads = [threading.Thread(target=watch, args=(mine,)) for mine in seen]
        for thread in threads:
            thread.start()
        for n in range(0, 120, 3):
            store.append("a", some_entries(3, n), n)
        done.set()
        for thread in threads:
            thread.join()
        assert seen == [list(range(1, 121))] * 2
        store.close()

    def test_e5_what_was_appended_is_there_after_opening_again(self, tmp_path: Path) -> None:
        """E5: without a crash; each store tests its own crashes."""
        store = self.open(tmp_path)
        store.append("a", some_entries(3), 0)
        records, head = read_all(store), store.head()
        assert head.seq == 3
        store.close()
        if self.keeps:
            again = self.open(tmp_path)
            assert (read_all(again), again.head(), again.stream_version("a")) == (records, head, 3)
            assert again.append("a", some_entries(1, 3), 3).first == 4
            again.close()

    def test_e6_pages_join_without_loss_and_appends_go_between(self, tmp_path: Path) -> None:
        """E6."""
        store = self.open(tmp_path)
        store.append("a", some_entries(10), 0)
        first = store.read(0, 4)
        assert [r.seq for r in first] == [1, 2, 3, 4]
        store.append("a", some_entries(3, 10), 10)
        assert [r.seq for r in store.read(4, 100)] == list(range(5, 14))
        assert [r.version for r in store.read_stream("a", 11, 1)] == [12]
        assert store.read(13) == []
        assert store.read(99) == store.read_stream("a", 99) == store.read_stream("nobody") == []
        for after, limit in ((-1, 1), (0, 0)):
            error_of(ValueError, store.read, after, limit)
            error_of(ValueError, store.read_stream, "a", after, limit)
        store.close()

    async def test_e7_follow_gives_everything_once_across_catch_up_and_live(
        self, tmp_path: Path
    ) -> None:
        """E7."""
        store = self.open(tmp_path)
        store.append("a", some_entries(7), 0)
        seen: list[int] = []
        async with aclosing(follow(store, 2, poll_ms=1, page=2, threaded=False)) as records:
            async for record in records:
                seen.append(record.seq)
                if record.seq in (4, 7, 9):
                    version = store.stream_version("a")
                    store.append("a", some_entries(2, version), version)
                if record.seq == 13:
                    break
        assert seen == list(range(3, 14))
        store.close()

    def test_e8_bytes_come_back_unchanged_and_chained(self, tmp_path: Path) -> None:
        """E8."""
        store = self.open(tmp_path)
        given = [
            Entry("kïnd", 7, -(1 << 63), (1 << 63) - 1, b'{"a":"\\u0000 \xf0\x9f\x98\x80 \'\\""}'),
            Entry("", 0, 0, 0, b""),
            Entry("k", 1, 1, 1, b'{ "spaces" :  [1,2 ] }\n'),
        ]
        store.append("strëam", given[:1], 0)
        store.append("strëam", given[1:], 1)
        records = store.read()
        assert same_entries(records, given)
        assert verify_chain(records, Head()) == store.head()
        assert all(type(r.body) is bytes and len(r.chain) == 16 for r in records)
        store.close()

    def test_e9_head_is_the_last_row(self, tmp_path: Path) -> None:
        """E9."""
        store = self.open(tmp_path)
        assert store.head() == Head()
        for n in range(3):
            store.append("a", some_entries(2, 2 * n), 2 * n)
            last = store.read(2 * n + 1, 1)[0]
            assert store.head() == Head(2 * n + 2, last.chain)
        store.close()

    def test_the_last_row_until_a_time_is_found(self, tmp_path: Path) -> None:
        """Of entries at 1000, 1001, ... as :func:`some_entries` makes them."""
        store = self.open(tmp_path)
        assert store.last_until(5_000) == 0
        for n in range(0, 9, 3):
            store.append("a", some_entries(3, n), n)
        found = [store.last_until(at_ms) for at_ms in (999, 1_000, 1_004, 1_008, 9_999)]
        assert found == [0, 1, 5, 9, 9]
        store.close()

    def test_rows_are_found_by_kind_and_text(self, tmp_path: Path) -> None:
        store = self.open(tmp_path)
        for n, (kind, text) in enumerate((("K", "x"), ("L", "x"), ("K", "y"), ("K", "z"))):
            body = json.dumps({"text": text}).encode()
            store.append("a", [Entry(kind=kind, schema=1, at_ms=n, seen=0, body=body)], n)

        def found(*texts: str, after: int = 0, until: int = 9, limit: int = 9) -> list[int]:
            return [row.seq for row in store.search(["K"], texts, after, until, limit)]

        assert found('"x"') == [1]
        assert found('"x"', '"z"') == [1, 4]
        assert found('"x"', '"z"', after=1) == [4]
        assert found('"x"', '"z"', until=3) == [1]
        assert found("text", limit=2) == [1, 3]
        assert store.search(["K"], ['"y"'], 0, 9) == store.read(2, 1)
        store.close()

    def test_e10_a_closed_store_raises(self, tmp_path: Path) -> None:
        """E10."""
        store = self.open(tmp_path)
        store.append("a", some_entries(1), 0)
        store.close()
        store.close()
        error_of(StoreClosed, store.append, "a", some_entries(1, 1), 1)
        error_of(StoreClosed, store.read)
        error_of(StoreClosed, store.read_stream, "a")
        error_of(StoreClosed, store.head)
        error_of(StoreClosed, store.last_until, 0)
        error_of(StoreClosed, store.search, ["a"], ["a"], 0, 1)
        error_of(StoreClosed, store.stream_version, "a")
