"""Who is to read a body is told by a look at it that is bounded itself."""

import gzip

import pytest
import trio

from tests.proxy.questions import JSON, prompt, question, read_here
from tests.proxy.test_body import PACKERS
from tests.proxy.test_inflate import EMPTY_FRAME, EMPTY_MEMBER
from trioroute.proxy.bodies import weigh as weigh_module
from trioroute.proxy.bodies.facts import Facts, Question, read_facts
from trioroute.proxy.bodies.reader import VALUES_MAX, BodyReader
from trioroute.proxy.bodies.weigh import CONTAINERS_MAX, PACKED_BYTES, QUOTES_MAX, SURE_BYTES, weigh
from trioroute.proxy.body import TakesLong

LARGEST = 64 << 20


def packed(coding: bytes) -> Question:
    return question(headers=[JSON, (b"content-encoding", coding)])


def test_there_is_nothing_to_read_in_a_mere_file() -> None:
    for kind, size in ((b"audio/wav", 0), (b"Multipart/form-data; boundary=b", 5), (JSON[1], 5)):
        assert weigh(question(headers=[(b"content-type", kind)]), b"x" * 5, 5).size == size
    assert weigh(question(headers=[]), b"x" * 5, 5).size == 5


def test_of_a_compressed_body_counts_what_it_inflates_to_and_that_is_kept() -> None:
    weight = weigh(packed(b"gzip"), gzip.compress(b" " * 700), 1000)
    assert (weight.size, weight.plain) == (700, b" " * 700)
    assert weigh(packed(b"gzip"), gzip.compress(b" " * 1_000_000), 1000).size == LARGEST
    assert weigh(packed(b"gzip"), b"damaged", 1000).size == 7


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        (b"gzip", EMPTY_MEMBER * (PACKED_BYTES // len(EMPTY_MEMBER) + 1)),
        (b"zstd", EMPTY_FRAME * (PACKED_BYTES // len(EMPTY_FRAME) + 1)),
        (b"zstd", PACKERS[b"zstd"](b"x") + b"x" * PACKED_BYTES),
        (b"br", PACKERS[b"br"](b"\0" * 10_000_000)),
        (b"BR", PACKERS[b"br"](b"{}")),
    ],
)
def test_what_may_take_long_to_inflate_is_not_inflated_to_see(
    coding: bytes, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(weigh_module, "plain_body")
    assert weigh(packed(coding), body, 1000).size == LARGEST


HERE_MAX = 256 * 1024
HEAD = b'{"model":"m","messages":['


@pytest.mark.parametrize("piece", [b"[],", b"{},", b'{"a":1},', b"[[[[[[[[[]]]]]]]]],", b"[" * 900])
def test_a_body_full_of_brackets_counts_as_the_largest(piece: bytes) -> None:
    for size in (HERE_MAX - 100, CONTAINERS_MAX * len(piece) + SURE_BYTES):
        body = (HEAD + piece * (size // len(piece) + 1))[: HERE_MAX - 1]
        assert weigh(question(), body, HERE_MAX).size == LARGEST
        packed_body = gzip.compress(body)
        assert weigh(packed(b"gzip"), packed_body, HERE_MAX).size == LARGEST
        file = question(headers=[(b"content-type", b"audio/wav")])
        assert weigh(file, body, HERE_MAX).size == len(body)


@pytest.mark.parametrize("piece", [b'"%x":1,', b'"%06d" : "",', b'"":0,'])
def test_an_object_of_many_names_counts_as_the_largest(piece: bytes) -> None:
    names = b"".join(piece % n if b"%" in piece else piece for n in range(QUOTES_MAX // 2 + 1))
    body = b'{"model":"m",' + names + b'"end":1}'
    assert len(body) < HERE_MAX
    assert weigh(question(), body, HERE_MAX).size == LARGEST
    assert weigh(packed(b"gzip"), gzip.compress(body), HERE_MAX).size == LARGEST
    few = body[: len(body) // 3]
    assert weigh(question(), few, HERE_MAX).size == len(few)


def test_no_more_brackets_are_looked_for_than_count() -> None:
    class Counted(bytes):
        looks = 0

        def find(self, *asked: object) -> int:
            Counted.looks += 1
            return super().find(*asked)  # type: ignore[arg-type]  # as it was called

    assert weigh(question(), Counted(b"[{" * 100_000), HERE_MAX).size == LARGEST
    assert Counted.looks <= CONTAINERS_MAX


@pytest.mark.parametrize("size", [1000, 100_000, 200_000])
def test_prompts_as_they_are_sent_are_read_here(size: int) -> None:
    tools = [{"type": "function", "function": {"parameters": {"a": [1]}}}] * 50
    body = prompt(size, tools=tools)
    assert weigh(question(), body, HERE_MAX).size == len(body)
    assert read_facts(question(), body, values_max=VALUES_MAX) == read_here(question(), body)


WIDE = {
    "empty texts": HEAD + b'"",' * 5000 + b'""]}',
    "numbers": HEAD + b'"",' + b"1," * 5000 + b"1]}",
    "texts of a system prompt": HEAD + b'{"role":"system","content":[' + b'"",' * 5000 + b'""]}]}',
    "names": HEAD + b'{"x":1' + b"".join(b',"%d":1' % n for n in range(5000)) + b"}]}",
    "a lone surrogate": HEAD + b'"\\ud800"]}',
    "a large number": HEAD + b"1e400]}",
}


@pytest.mark.parametrize("body", WIDE.values(), ids=WIDE.keys())
def test_of_a_body_that_takes_long_it_is_said_before_it_took_long(body: bytes) -> None:
    with pytest.raises(TakesLong):
        read_facts(question(), body, values_max=VALUES_MAX)
    assert isinstance(read_here(question(), body), Facts)


def test_token_ids_are_many_and_quick_unless_blocks_are_made_of_them() -> None:
    body = b'{"model":"m","prompt":[' + b"12345," * 30_000 + b"1]}"
    found = read_facts(question(), body, values_max=VALUES_MAX)
    assert isinstance(found, Facts)
    assert found.profile.prompt_bytes == 4 * 30_001
    with pytest.raises(TakesLong):
        read_facts(question(policy={"name": "least-work"}), body, values_max=VALUES_MAX)


async def test_who_takes_long_is_read_by_the_child_though_it_is_small() -> None:
    reader = BodyReader()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        await trio.testing.wait_all_tasks_blocked()
        for name, body in WIDE.items():
            body += b" " * SURE_BYTES
            assert await reader.facts(question(), body) == read_here(question(), body), name
            assert reader.child is not None
        dense = HEAD + b"[]," * 100_000 + b"0]}"
        await reader._drop()
        assert await reader.facts(question(), dense) == read_here(question(), dense)
        assert reader.child is not None
        nursery.cancel_scope.cancel()
    for body in WIDE.values():
        assert await BodyReader().facts(question(), body) == read_here(question(), body)
