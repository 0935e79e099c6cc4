"""Who is to read a body is told by a look at it that is bounded itself."""

import gzip

import pytest

from tests.proxy.questions import JSON, question
from tests.proxy.test_body import PACKERS
from tests.proxy.test_inflate import EMPTY_FRAME, EMPTY_MEMBER
from trioroute.proxy.bodies import weigh as weigh_module
from trioroute.proxy.bodies.facts import Question
from trioroute.proxy.bodies.weigh import PACKED_BYTES, weigh

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
