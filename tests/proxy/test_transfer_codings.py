"""Transfer codings of a replica's answer (RFC 9112 6.1 and 7): chunked, or it is no answer."""

import gzip

import pytest

from tests.proxy.replies import LAST, Recorder, chunk, says
from tests.proxy.whole import chat, whole
from trioroute import events as e

PACKED = gzip.compress(b'{"ok":true}')


def answer(*codings: str) -> bytes:
    lines = "".join(f"transfer-encoding: {coding}\r\n" for coding in codings)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{lines}\r\n".encode()
    return head + chunk(PACKED) + LAST


@pytest.mark.parametrize(
    "codings",
    [
        ("gzip, chunked",),
        ("gzip", "chunked"),
        ("GZip ,\tchunked",),
        ("gzip",),
        ("chunked, gzip",),
        ("chunked, chunked",),
        ("xchunked",),
        ("identity",),
        ("identity, chunked",),
        ("",),
    ],
)
async def test_a_body_that_is_coded_for_the_transfer_is_never_passed_as_plain(
    codings: tuple[str, ...],
) -> None:
    async with whole(says(answer(*codings)), Recorder()) as rig:
        for at in range(2):
            got = await rig.ask(chat(user=str(at)))
            assert (got.status, got.body) == (200, b'{"ok":true}')
        failed = [one for one in await rig.ends() if isinstance(one, e.Failed)]
        assert {(one.cause, one.blame) for one in failed} == {("protocol", "replica")}
    async with whole(says(answer(*codings))) as rig:
        got = await rig.ask()
        assert got.status == 502
        assert PACKED not in got.body


@pytest.mark.parametrize("coding", ["chunked", "Chunked"])
async def test_chunked_alone_is_read(coding: str) -> None:
    async with whole(says(answer(coding))) as rig:
        assert (await rig.ask()).body == PACKED
