"""A request head is held to one grammar and the same limits over HTTP/1.1 and HTTP/2."""

import json

import pytest

from tests.proxy.asker import Asker, asking
from tests.proxy.serving import GET, Recorder, Serving, chunk, client, serving
from trioroute.proxy.serving.asgi import Receive, Scope, Send
from trioroute.proxy.serving.limits import ServerLimits

LIMITS = ServerLimits(header_count=20, url_bytes=200)
Fields = list[tuple[bytes, bytes]]

BAD: dict[str, tuple[int, bytes, bytes, Fields]] = {
    "method with a request line": (400, b"post /sleep HTTP/1.1 x", b"/v1/x", []),
    "method and query": (400, b"GET /load_lora?y=", b"/v1/x", []),
    "method too long": (400, b"M" * 33, b"/v1/x", []),
    "space": (400, b"GET", b"/v1/x HTTP/1.1", []),
    "tab": (400, b"GET", b"/v1/x\tHTTP/1.1", []),
    "control": (400, b"GET", b"/v1/\x01", []),
    "delete": (400, b"GET", b"/v1/\x7f", []),
    "query control": (400, b"GET", b"/v1/x?a\x01b", []),
    "query space": (400, b"GET", b"/v1/x?a b", []),
    "query beyond ASCII": (400, b"GET", b"/v1/x?\xff", []),
    "fragment": (400, b"GET", b"/v1/x#frag", []),
    "fragment behind a query": (400, b"GET", b"/v1/x?a#frag", []),
    "no slash": (400, b"GET", b"v1/x", []),
    "star": (400, b"GET", b"*", []),
    "name": (400, b"GET", b"/v1/x", [(b"x-a(b", b"v")]),
    "name with a quote": (400, b"GET", b"/v1/x", [(b'x-a"', b"v")]),
    "value with a bell": (400, b"GET", b"/v1/x", [(b"x-a", b"a\x07b")]),
    "value with a delete": (400, b"GET", b"/v1/x", [(b"x-a", b"a\x7fb")]),
    "long URL": (414, b"GET", b"/v1/" + b"x" * 200, []),
    "long query": (414, b"GET", b"/v1/x?" + b"x" * 200, []),
    "many headers": (431, b"GET", b"/v1/x", [(b"x-%d" % n, b"v") for n in range(20)]),
}
GOOD: dict[str, tuple[bytes, bytes, Fields]] = {
    "odd method": (b"M-SEARCH", b"/v1/x", []),
    "longest method": (b"M" * 32, b"/v1/x", []),
    "star": (b"OPTIONS", b"*", []),
    "target": (b"GET", b"/v1/a%20b;c?d=[e]&f=\"'", []),
    "longest target": (b"GET", b"/v1/" + b"x" * 196, []),
    "value": (b"GET", b"/v1/x", [(b"x-a!#$%&'*+-.^_`|~9", b"a\tb \x80\xff")]),
    "most headers": (b"GET", b"/v1/x", [(b"x-%d" % n, b"v") for n in range(19)]),
}


async def send_h2(asker: Asker, method: bytes, path: bytes, extra: Fields) -> int:
    """As a client without manners: neither checked nor corrected."""
    asker.h2.config.validate_outbound_headers = False
    asker.h2.config.normalize_outbound_headers = False
    stream, asker.next = asker.next, asker.next + 2
    names = ((b":method", method), (b":path", path), (b":scheme", b"http"), (b":authority", b"t"))
    asker.h2.send_headers(stream, [*names, *extra], end_stream=True)
    await asker.raw.send(asker.h2.data_to_send())
    return stream


async def answer_h1(server: Serving, method: bytes, path: bytes, extra: Fields) -> int:
    lines = b"".join(b"%b: %b\r\n" % field for field in extra)
    async with client(server.port) as c:
        await c.send(b"%b %b HTTP/1.1\r\nhost: t\r\n%b\r\n" % (method, path, lines))
        return int((await c.until(b"\r\n")).split()[1])


@pytest.mark.parametrize("name", BAD)
async def test_what_has_no_place_in_a_head_is_refused_on_its_stream(name: str) -> None:
    status, method, path, extra = BAD[name]
    app = Recorder()
    async with serving(app, LIMITS) as server, asking(server) as asker:
        bad = await send_h2(asker, method, path, extra)
        await asker.read_whole(bad)
        assert asker.heads[bad][":status"] == str(status)
        code = json.loads(asker.bodies[bad])["error"]["code"]
        assert server.refusals == [code]
        assert not app.scopes
        kept = await asker.ask("/kept")
        await asker.read_whole(kept)
        assert asker.heads[kept][":status"] == "200"
        assert await answer_h1(server, method, path, extra) == status
        assert server.refusals == [code, code]


@pytest.mark.parametrize("name", GOOD)
async def test_what_is_odd_and_good_reaches_the_application(name: str) -> None:
    app = Recorder()
    async with serving(app, LIMITS) as server, asking(server) as asker:
        good = await send_h2(asker, *GOOD[name])
        await asker.read_whole(good)
        assert asker.heads[good][":status"] == "200"
        assert await answer_h1(server, *GOOD[name]) == 200
        assert app.scopes[0]["method"] == app.scopes[1]["method"]
        assert app.scopes[0]["raw_path"] == app.scopes[1]["raw_path"]
        assert app.scopes[0]["query_string"] == app.scopes[1]["query_string"]


async def test_lengths_that_differ_are_refused() -> None:
    app = Recorder()
    async with serving(app) as server, asking(server) as asker:
        two = [(b"content-length", b"0"), (b"content-length", b"00")]
        bad = await send_h2(asker, b"POST", b"/", two)
        await asker.read_whole(bad)
        assert asker.heads[bad][":status"] == "400"
        assert not app.scopes


@pytest.mark.parametrize("status", [204, 200])
async def test_an_answer_that_has_no_content_tells_no_length(status: int) -> None:
    """RFC 9110 section 8.6: a replica may say so, it is not passed on."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"Content-Length", b"0")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await chunk(send, b"", more=False)

    async with serving(app) as server, asking(server) as asker, client(server.port) as c:
        stream = await asker.ask("/")
        await asker.read_whole(stream)
        assert asker.heads[stream][":status"] == str(status)
        assert ("content-length" in asker.heads[stream]) == (status != 204)
        await c.send(GET)
        assert ("content-length" in (await c.head()).headers) == (status != 204)
