"""One scrape over real sockets: each way to fail ends in its word, none in an exception."""

import gc
import logging
import socket
import ssl
import time
from pathlib import Path

import pytest
import trio

from tests.ports import free_port
from tests.scrape.servers import MODELS, UNDER_LOAD, pages, reply, reset, serving
from trioroute.events import MODEL_NAME_MAX
from trioroute.scrape import fetch
from trioroute.scrape.dialect import UnknownEngine
from trioroute.scrape.fetch import Bad, Good, Ours, ScrapeResult, ScrapeTarget
from trioroute.scrape.page import PageReading

LOADED = PageReading(running=8, waiting=12, kv_m=1, tokens=7706, cache_tokens=1_048_576)
TLS = ssl.create_default_context()
KEY = "Bearer sk-canary-5f2a"


async def scrape(
    url: str,
    *,
    ask_models: bool = False,
    timeout_s: float = 5.0,
    own: int = 0,
    authorization: str | None = None,
) -> ScrapeResult:
    target = ScrapeTarget(name="a", url=url, authorization=authorization)
    async with fetch.open_client(TLS) as client:
        return await fetch.scrape_once(
            client, target, ask_models=ask_models, in_flight=lambda _: own, timeout_s=timeout_s
        )


async def test_a_good_page_with_what_was_in_flight_and_the_models() -> None:
    async with serving(pages(metrics=reply(UNDER_LOAD), models=reply(MODELS))) as url:
        assert await scrape(url, own=3) == Good(page=LOADED, own=3)
        assert await scrape(url + "/", ask_models=True) == Good(
            page=LOADED, own=0, models=("tiny",)
        )


async def test_in_flight_is_sampled_when_the_page_is_complete() -> None:
    in_flight = 0

    async def handle(stream: trio.SocketStream, _path: str, _head: bytes) -> None:
        nonlocal in_flight
        answer = reply(UNDER_LOAD)
        await stream.send_all(answer[:30_000])
        await trio.sleep(0.02)
        in_flight = 5  # dispatched while the page was under way
        await stream.send_all(answer[30_000:])

    async with serving(handle) as url, fetch.open_client(TLS) as client:
        result = await fetch.scrape_once(
            client,
            ScrapeTarget(name="a", url=url),
            ask_models=False,
            in_flight=lambda _: in_flight,
        )
    assert result == Good(page=LOADED, own=5)


async def test_a_chunked_page_in_the_smallest_chunks_is_read() -> None:
    async def handle(stream: trio.SocketStream, _path: str, _head: bytes) -> None:
        body = b"".join(b"1\r\n%c\r\n" % byte for byte in UNDER_LOAD[:9000]) + b"0\r\n\r\n"
        await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + body)

    async with serving(handle) as url:
        result = await scrape(url)
    assert isinstance(result, Good)
    assert (result.page.running, result.page.waiting) == (8, 12)


async def test_the_key_and_the_scrapers_headers_go_with_every_request() -> None:
    heads: list[bytes] = []

    async def handle(stream: trio.SocketStream, path: str, head: bytes) -> None:
        heads.append(head.lower())
        await pages(metrics=reply(b"", "404 Not Found"), health=reply(), models=reply(MODELS))(
            stream, path, head
        )

    async with serving(handle) as url:
        await scrape(url, ask_models=True, authorization=KEY)
    assert [head.split()[1] for head in heads] == [b"/metrics", b"/health", b"/v1/models"]
    for head in heads:
        assert b"\r\nauthorization: bearer sk-canary-5f2a\r\n" in head
        assert b"\r\naccept-encoding: identity\r\n" in head
        assert b"\r\nconnection: close\r\n" in head


@pytest.mark.parametrize("status", ["404 Not Found", "405 No", "501 Not Implemented"])
async def test_an_engine_without_a_metrics_page_is_asked_for_its_health(status: str) -> None:
    async with serving(pages(metrics=reply(b"", status), health=reply())) as url:
        assert await scrape(url, own=2) == Good(page=PageReading(), own=2)
    async with serving(pages(metrics=reply(b"", status), health=reply(b"", "503 No"))) as url:
        assert await scrape(url) == Bad(cause="status", status=503)


@pytest.mark.parametrize("status", [204, 302, 400, 401, 403, 500, 503])
async def test_any_other_status_is_a_failure_that_names_it(status: int) -> None:
    answer = reply(b"", f"{status} X", "location: /health")
    async with serving(pages(metrics=answer, health=reply())) as url:
        assert await scrape(url, authorization=KEY) == Bad(cause="status", status=status)


async def test_refused() -> None:
    assert await scrape(f"http://127.0.0.1:{free_port()}") == Bad(cause="refused")
    assert await scrape(f"http://localhost:{free_port()}") == Bad(cause="refused")


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nconte", reply(UNDER_LOAD)[:9000]])
async def test_reset(sent: bytes) -> None:
    async def handle(stream: trio.SocketStream, _path: str, _head: bytes) -> None:
        await stream.send_all(sent)
        await trio.sleep(0.02)  # a reset that overtakes the bytes would destroy them
        reset(stream)

    async with serving(handle) as url:
        assert await scrape(url) == Bad(cause="reset")


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nm 1\n\n\r\n"


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\nconte", reply(UNDER_LOAD)[:9000], CHUNKED]
)
async def test_closed_before_it_was_complete(sent: bytes) -> None:
    async def handle(stream: trio.SocketStream, _path: str, _head: bytes) -> None:
        await stream.send_all(sent)

    async with serving(handle) as url:
        assert await scrape(url) == Bad(cause="fin")


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        reply(b"<html><body>Welcome</body></html>"),
        reply(b"\0\1\2\3"),
        reply(UNDER_LOAD, "200 OK", "content-encoding: gzip"),
    ],
)
async def test_not_what_http_or_the_format_allows(answer: bytes) -> None:
    async with serving(pages(metrics=answer)) as url:
        assert await scrape(url) == Bad(cause="protocol")


async def test_an_endless_page_is_given_up_at_its_bound() -> None:
    sent = 0

    async def handle(stream: trio.SocketStream, _path: str, _head: bytes) -> None:
        nonlocal sent
        await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + (b"m" * 1023 + b"\n") * 64 + b"\r\n"
        while True:
            await stream.send_all(piece)
            sent += len(piece)

    async with serving(handle) as url:
        assert await scrape(url, timeout_s=30) == Bad(cause="protocol")
    assert sent < 16 * 1024 * 1024


async def test_silence_is_a_timeout() -> None:
    async def handle(_stream: trio.SocketStream, _path: str, _head: bytes) -> None:
        await trio.sleep_forever()

    async with serving(handle) as url:
        assert await scrape(url, timeout_s=0.1) == Bad(cause="timeout")
        tls = url.replace("http:", "https:")
        assert await scrape(tls, timeout_s=0.1) == Bad(cause="timeout")


async def test_a_drip_does_not_outlive_the_limit() -> None:
    async def handle(stream: trio.SocketStream, _path: str, _head: bytes) -> None:
        for byte in reply(UNDER_LOAD):
            await stream.send_all(bytes([byte]))
            await trio.sleep(0.005)

    async with serving(handle) as url:
        begun = trio.current_time()
        assert await scrape(url, timeout_s=0.2) == Bad(cause="timeout")
        assert trio.current_time() - begun < 20


async def test_the_limit_covers_all_pages_together_and_keeps_the_load_that_was_read() -> None:
    async def handle(stream: trio.SocketStream, path: str, _head: bytes) -> None:
        if path == "/v1/models":
            await trio.sleep_forever()
        await stream.send_all(reply(UNDER_LOAD))

    async with serving(handle) as url:
        result = await scrape(url, ask_models=True, timeout_s=0.3)
    assert result == Good(page=LOADED, own=0, models_fault=Bad(cause="timeout"))


async def test_plain_text_where_tls_was_expected() -> None:
    async def handle(stream: trio.SocketStream, _path: str, _head: bytes) -> None:
        await stream.send_all(reply(b"", "400 Bad Request"))

    async with serving(handle) as url:
        assert await scrape(url.replace("http:", "https:")) == Bad(cause="tls")


class Resolver(trio.abc.HostnameResolver):
    def __init__(self, error: OSError) -> None:
        self.error = error

    async def getaddrinfo(self, *_args: object, **_kwargs: object) -> list[object]:  # type: ignore[override]  # never returns
        await trio.lowlevel.checkpoint()
        raise self.error

    async def getnameinfo(self, *_args: object) -> tuple[str, str]:
        await trio.lowlevel.checkpoint()
        raise self.error


async def test_a_name_nobody_knows() -> None:
    trio.socket.set_custom_hostname_resolver(Resolver(socket.gaierror(socket.EAI_NONAME, "no")))
    assert await scrape("http://gpu1.invalid:8000") == Bad(cause="dns")


async def test_no_file_descriptor_left_is_not_the_replicas_fault() -> None:
    trio.socket.set_custom_hostname_resolver(Resolver(OSError(24, "Too many open files")))
    result = await scrape("http://gpu1.invalid:8000")
    assert isinstance(result, Ours)
    assert "file descriptor" in result.why


async def test_a_url_nobody_can_ask_is_not_the_replicas_fault() -> None:
    for url in ("ftp://gpu1", "gpu1:8000", "http://gpu1:port"):
        assert isinstance(await scrape(url), Ours)


async def test_a_router_that_was_held_up_does_not_blame_the_replica(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def handle(_stream: trio.SocketStream, _path: str, _head: bytes) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(fetch, "LATE_S", 0.1)
    async with serving(handle) as url, trio.open_nursery() as nursery:

        async def freeze() -> None:
            await trio.sleep(0.05)
            time.sleep(0.4)  # noqa: ASYNC251 - the point: the loop stands still

        nursery.start_soon(freeze)
        assert isinstance(await scrape(url, timeout_s=0.1), Ours)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (reply(b"", "401 Unauthorized"), Bad(cause="status", status=401)),
        (reply(b"", "404 Not Found"), Bad(cause="status", status=404)),
        (reply(b"not json"), Bad(cause="protocol")),
        (reply(b'["tiny"]'), Bad(cause="protocol")),
        (reply(b'{"data": {}}'), Bad(cause="protocol")),
        (reply(b" " * (1024 * 1024 + 1)), Bad(cause="protocol")),
        (b"", Bad(cause="status", status=404)),
    ],
)
async def test_models_that_cannot_be_had_leave_the_load(answer: bytes, fault: Bad) -> None:
    async with serving(pages(metrics=reply(UNDER_LOAD), models=answer)) as url:
        result = await scrape(url, ask_models=True)
    assert result == Good(page=LOADED, own=0, models_fault=fault)


async def test_models_are_taken_in_page_order_each_once_and_bounded() -> None:
    rows = (
        b'{"id":"b"},{"id":"a"},{"id":"b"},{"id":7},{"id":""},{"name":"x"},4,{"id":"%s"},{"id":"%s"}'
        % (
            b"x" * (MODEL_NAME_MAX + 1),
            b"y" * MODEL_NAME_MAX,
        )
    )
    answer = reply(b'{"object":"list","data":[' + rows + b"]}")
    async with serving(pages(metrics=reply(UNDER_LOAD), models=answer)) as url:
        result = await scrape(url, ask_models=True)
    assert isinstance(result, Good)
    assert result.models == ("b", "a", "y" * MODEL_NAME_MAX)


async def test_nothing_shows_the_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving(pages(metrics=reply(b"", "401 Unauthorized"))) as url:
        target = ScrapeTarget(name="a", url=url, authorization=KEY)
        result = await scrape(url, authorization=KEY)
    assert "canary" not in repr(target) + repr(result) + caplog.text
    assert "HTTP Request" not in caplog.text  # httpx's line for every request
    for key in ("Bearer sk-canary\n", "Bearer sk-canär-canary"):
        with pytest.raises(ValueError, match="API key of replica 'a'") as error:
            ScrapeTarget(name="a", url=url, authorization=key)
        assert "canary" not in repr(error.value)


def test_an_unknown_engine_is_named_with_the_known_ones() -> None:
    with pytest.raises(
        UnknownEngine, match="'vlm' is not known; known engines: generic, llamacpp, "
    ):
        ScrapeTarget(name="a", url="http://a", engine="vlm")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_scrape_cancelled_at_any_moment_leaves_no_socket_open(scheme: str) -> None:
    async def silent(stream: trio.SocketStream, _path: str, _head: bytes) -> None:
        await stream.receive_some()

    answer = pages(metrics=reply(UNDER_LOAD)) if scheme == "http" else silent
    gc.collect()
    gc.disable()  # it would hide a socket that nobody closed
    try:
        async with serving(answer) as url:
            before = open_files()
            for moment in range(40):
                with trio.move_on_after(moment * 0.0003):
                    await scrape(url.replace("http", scheme))
            with trio.fail_after(40):
                while open_files() > before:  # noqa: ASYNC110 - the server's ends close by themselves
                    await trio.sleep(0.01)
    finally:
        gc.enable()
