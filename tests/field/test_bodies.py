"""Bodies, in both directions: untouched byte for byte, or refused before anything is sent."""

import gzip
import hashlib
import json
import zlib

import pytest
import trio

from tests.field.site import STREAMED, OpenSite, prompt
from tests.field.stub import Stub
from tests.proxy.replies import LAST, Recorder, chunk, reply, says, stream_head, token
from tests.proxy.scripted import Peer
from tests.proxy.serving import Reply

MIB = 1 << 20


def message_of(answer: Reply) -> str:
    return str(json.loads(answer.body)["error"]["message"])


@pytest.mark.parametrize("accept", ["gzip", "identity"])
async def test_header_and_body_disagree_after_decompression(
    open_site: OpenSite, accept: str
) -> None:
    plain = json.dumps({"text": "x" * 3000}).encode()

    async def compresses(peer: Peer) -> None:
        """As engines do: only for who offers it."""
        while taken := await peer.request():
            asked = b"accept-encoding: gzip" in taken
            body = gzip.compress(plain) if asked else plain
            kind = "text/event-stream" if b'"stream": true' in taken else "application/json"
            status = 400 if b'"bad": true' in taken else 200
            headers = [f"content-type: {kind}", *(["content-encoding: gzip"] if asked else [])]
            await peer.send(reply(body, status, *headers))

    async with open_site(Stub(compresses)) as site:
        for asked in (prompt(), prompt(bad=True), STREAMED):
            answer = await site.ask(asked, headers=[f"accept-encoding: {accept}"])
            assert answer.status == (400 if "bad" in asked else 200)
            coding = answer.headers.get("content-encoding")
            assert coding == (None if accept == "identity" else "gzip")
            assert int(answer.headers["content-length"]) == len(answer.body)
            assert (gzip.decompress(answer.body) if coding else answer.body) == plain


async def test_decoder_state_lost_between_chunks(open_site: OpenSite) -> None:
    """One gzip member, flushed after each event."""
    sent_at: list[float] = []

    async def flushes(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head("content-encoding: gzip"))
        packer = zlib.compressobj(wbits=31)
        for at in range(30):
            data = packer.compress(token(str(at))) + packer.flush(zlib.Z_SYNC_FLUSH)
            sent_at.append(trio.current_time())
            await peer.send(chunk(data))
            await trio.sleep(0.03)
        await peer.send(chunk(packer.flush()) + LAST)

    async with open_site(Stub(flushes)) as site, site.connect() as raw:
        await site.send(raw, STREAMED, headers=["accept-encoding: gzip"])
        await raw.head()
        unpacker, seen, lags = zlib.decompressobj(wbits=31), b"", []
        while size := int(await raw.until(b"\r\n"), 16):
            had = seen.count(b"\n\n")
            seen += unpacker.decompress((await raw.exactly(size + 2))[:-2])
            lags += [trio.current_time() - sent_at[at] for at in range(had, seen.count(b"\n\n"))]
        assert seen == b"".join(token(str(at)) for at in range(30))
        assert len(lags) == 30
        assert sorted(lags)[27] < 0.2
        await raw.until(b"\r\n")
        assert (await site.released()).outcome == "ok"


async def test_wrong_default_limit_and_wrong_status(open_site: OpenSite) -> None:
    image = "data:image/png;base64," + "A" * (12 * MIB)
    parts = [{"type": "image_url", "image_url": {"url": image}}]
    body = {"model": "m", "messages": [{"role": "user", "content": parts}]}
    async with open_site(Stub(made := Recorder())) as site:
        assert (await site.ask(body)).status == 200
        assert len(made.body()) > 12 * MIB
        async with site.connect() as raw:
            await raw.send(
                b"POST /v1/x HTTP/1.1\r\nhost: t\r\ncontent-length: %d\r\n\r\n" % (64 * MIB + 1)
            )
            answer = await raw.reply()
        assert answer.status == 413
        assert json.loads(answer.body)["error"]["code"] == "body_too_large"
        assert "refused: 1 body_too_large" in site.caplog.text


@pytest.mark.parametrize(
    "text",
    [rb"\ud800", rb"\u0000", "😀".encode(), rb"\ud83d\ude00", "\u2028 \u2029".encode()],
    ids=["lone surrogate", "NUL", "4 bytes", "pair", "line separators"],
)
async def test_unicode_round_trip(open_site: OpenSite, text: bytes) -> None:
    body = b'{"model":"m","messages":[{"role":"system","content":"%b"}]}' % text
    async with open_site(Stub(made := Recorder())) as site:
        for sent in (body, b"\xef\xbb\xbf" + body):
            assert (await site.ask(sent, headers=["x-session-id: ü"])).status == 200
            assert made.body() == sent
        assert (await site.ask(body.replace(b"model", b"mod\xffel"))).status == 400
        assert (await site.ask(body.replace(text, b"\xff\xfe"))).status == 400
        assert len(made.requests) == 2


async def test_body_changed_by_re_serialising(open_site: OpenSite) -> None:
    body = (
        b'{"z" : 1,"seed": 9007199254740993 , "p":0.1234567890123456789012345,\r\n"p": 1e400,\t'
        b'"model":"m", "unknown":{"b":1,"a":[ ]},"messages":[] }'
    )
    async with open_site(Stub(made := Recorder())) as site:
        assert (await site.ask(body)).status == 200
        assert hashlib.sha256(made.body()).digest() == hashlib.sha256(body).digest()
        packed = gzip.compress(body)
        assert (await site.ask(packed, headers=["content-encoding: gzip"])).status == 200
        assert made.body() == packed
        assert made.header("content-encoding") == "gzip"


@pytest.mark.parametrize(
    ("response", "status"),
    [
        (reply(b"not ready yet", 503, "content-type: text/plain"), 503),
        (reply(b"<html>bad gateway</html>", 502, "content-type: text/html"), 502),
        (reply(b"", 500), 500),
        (reply(b"{not json", 200), 200),
    ],
    ids=["503 text", "502 html", "500 empty", "200 no json"],
)
async def test_upstream_error_body_assumed_to_be_json(
    open_site: OpenSite, response: bytes, status: int
) -> None:
    async with open_site(Stub(says(response)), Stub(says(response))) as site:
        answer = await site.ask()
        assert answer.status == status
        assert answer.body == response.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b"[]",
        b'"hi"',
        b"null",
        b'{"model":NaN}',
        b"[" * 100_000,
        b'{"model":"m","x":' + b"[" * 100_000,
        b'{"model":"m",}',
    ],
    ids=lambda body: repr(body[:20]),
)
async def test_malformed_json_routed_anyway(open_site: OpenSite, body: bytes) -> None:
    async with open_site(Stub(made := Recorder()), Stub(made)) as site:
        answer = await site.ask(body, headers=["content-type: application/json"])
        assert answer.status == 400
        assert message_of(answer)
        assert made.requests == []
