"""One scrape of one replica: its load page, and now and then its models.

Every scrape opens a connection of its own: that is what a new request has to do too, so a replica
that no longer accepts is found out at once, and an idle connection that the engine closed (vLLM
does after 5 s) can never look like a reset. Nothing is followed, decompressed or read beyond its
bound.
"""

import logging
import ssl
from collections.abc import Callable
from typing import Any

import attrs
import httpx
import orjson
import trio

from trioroute.clock import HELD_UP_MS
from trioroute.events import MODEL_NAME_MAX
from trioroute.events.words import Cause
from trioroute.scrape.causes import cause_of, own_fault
from trioroute.scrape.dialect import Dialect, dialect_for
from trioroute.scrape.exposition import Scanner, UnreadablePage
from trioroute.scrape.page import PageReading

# httpx writes a line at INFO for every request: 30 replicas would make ten a second.
logging.getLogger("httpx").setLevel(logging.WARNING)

MODELS_PAGE_MAX_BYTES = 1024 * 1024
MODELS_MAX = 1000
STEP_BYTES = 16 * 1024
"""A page is scanned in steps of this size, others run in between (worst case 3 ms a step)."""

LATE_S = HELD_UP_MS / 1000
"""A limit that strikes this long past its time: the router was held up, not the replica."""

NO_METRICS_PAGE = frozenset({404, 405, 501})


@attrs.frozen(kw_only=True)
class ScrapeTarget:
    """Where and how to ask. ``authorization`` is the whole header value and is never shown.
    ``generic`` is the dialect of the engine ``generic``.

    Raises ``UnknownEngine``, and ``ValueError`` for an authorization no header can carry.
    """

    name: str
    url: str
    models: tuple[str, ...] = ()
    engine: str = "vllm"
    authorization: str | None = attrs.field(default=None, repr=False)
    generic: Dialect | None = None

    @property
    def dialect(self) -> Dialect:
        return dialect_for(self.engine, self.generic)

    def __attrs_post_init__(self) -> None:
        dialect_for(self.engine)
        key = self.authorization
        if key is not None and not (key.isascii() and key.isprintable() and key == key.strip()):
            raise ValueError(
                f"the API key of replica {self.name!r} holds characters no header can carry; look"
                " for a line break or a non-ASCII letter in the variable that api_key_env names"
            )


@attrs.frozen(kw_only=True)
class Good:
    """An answer. ``own``: in flight there when the page was complete (RULES 3).

    ``models`` is ``None`` if they were not asked for or could not be had, then ``models_fault``
    tells why.
    """

    page: PageReading
    own: int
    models: tuple[str, ...] | None = None
    models_fault: "Bad | None" = None


@attrs.frozen(kw_only=True)
class Bad:
    """A failed scrape, as ``ScrapeFailed`` logs it."""

    cause: Cause
    status: int | None = None


@attrs.frozen(kw_only=True)
class Ours:
    """The router could not ask, which says nothing about the replica (RULES 6.2)."""

    why: str


ScrapeResult = Good | Bad | Ours

Sink = Callable[[bytes], None]


def open_client(tls: ssl.SSLContext) -> httpx.AsyncClient:
    """A client for one scrape: no proxy from the environment, no redirects, never queueing.

    It has no time limits: ``scrape_once`` has one for all of it.
    """
    return httpx.AsyncClient(
        verify=tls,
        trust_env=False,
        follow_redirects=False,
        timeout=None,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        headers={
            "accept": "text/plain, application/json;q=0.9, */*;q=0.1",
            "accept-encoding": "identity",
            "connection": "close",
            "user-agent": "trioroute",
        },
    )


async def scrape_once(
    client: httpx.AsyncClient,
    replica: ScrapeTarget,
    *,
    ask_models: bool,
    in_flight: Callable[[str], int],
    timeout_s: float = 2.0,
) -> ScrapeResult:
    """Ask one replica; ``timeout_s`` covers all of it, from the name lookup to the last byte.

    Never raises for what a replica or the network does. When the time is up while the models are
    asked for, the load page that was read still counts.
    """
    good: Good | None = None
    fault: Bad | Ours = Bad(cause="timeout")
    with trio.move_on_after(timeout_s) as limit:
        try:
            page = await _load(client, replica)
            if isinstance(page, Bad):
                return page
            good = Good(page=page, own=in_flight(replica.name))
            if not ask_models:
                return good
            models = await _models(client, replica)
            if isinstance(models, Bad):
                return attrs.evolve(good, models_fault=models)
            return attrs.evolve(good, models=models)
        except Exception as error:
            fault = _fault(error)
    if limit.cancelled_caught and trio.current_time() - limit.deadline > LATE_S:
        fault = Ours(why="the router itself was held up")
    if good is None or isinstance(fault, Ours):
        return good or fault
    return attrs.evolve(good, models_fault=fault)


async def _load(client: httpx.AsyncClient, replica: ScrapeTarget) -> PageReading | Bad:
    dialect = replica.dialect
    status = 404
    if dialect.path:
        scanner = Scanner(dialect.wanted)
        status = await _get(client, replica, dialect.path, scanner.feed)
        if status == 200:
            return dialect.fold(scanner.finish())
    if status in NO_METRICS_PAGE:  # it answers, its load stays unknown
        status = await _get(client, replica, "/health", None)
        if status == 200:
            return PageReading()
    return Bad(cause="status", status=status)


async def _models(client: httpx.AsyncClient, replica: ScrapeTarget) -> tuple[str, ...] | Bad:
    """The ids on the models page, in its order. Raises ``UnreadablePage``."""
    body = bytearray()

    def keep(piece: bytes) -> None:
        body.extend(piece)
        if len(body) > MODELS_PAGE_MAX_BYTES:
            raise UnreadablePage(f"models page is larger than {MODELS_PAGE_MAX_BYTES} bytes")

    status = await _get(client, replica, "/v1/models", keep)
    if status != 200:
        return Bad(cause="status", status=status)
    try:
        page = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise UnreadablePage("models page is not JSON") from None
    rows = page.get("data") if isinstance(page, dict) else None
    if not isinstance(rows, list):
        raise UnreadablePage("models page has no list of models")
    ids = [row.get("id") for row in rows[:MODELS_MAX] if isinstance(row, dict)]
    named = [i for i in ids if isinstance(i, str) and 0 < len(i) <= MODEL_NAME_MAX]
    return tuple(dict.fromkeys(named))


async def _get(
    client: httpx.AsyncClient, replica: ScrapeTarget, path: str, sink: Sink | None
) -> int:
    """GET, the body of a 200 into ``sink``; the status. Raises what httpx and ``sink`` raise."""
    headers = {} if replica.authorization is None else {"authorization": replica.authorization}
    url = replica.url.rstrip("/") + path
    sockets: list[trio.socket.SocketType] = []

    async def note(event: str, info: dict[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            sockets.append(info["return_value"].get_extra_info("socket"))

    try:
        async with client.stream(
            "GET", url, headers=headers, extensions={"trace": note}
        ) as response:
            if response.status_code == 200 and sink is not None:
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise UnreadablePage("page is compressed, which was not asked for")
                await _pour(response, sink)
            return response.status_code
    finally:
        # httpcore 1.0 forgets a connection whose TLS handshake is cancelled, without closing it.
        for each in sockets:
            each.close()


async def _pour(response: httpx.Response, sink: Sink) -> None:
    """All of the body into ``sink``, in small steps.

    A body that is given up is left by cancelling the read: leaving the loop would abandon httpx's
    nested generators half-way. For the same reason nothing in the loop may itself be cancelled.
    """
    unreadable: UnreadablePage | None = None
    with trio.CancelScope() as reading:
        async for chunk in response.aiter_raw():
            for at in range(0, len(chunk), STEP_BYTES):
                if unreadable is None:
                    try:
                        sink(chunk[at : at + STEP_BYTES])
                    except UnreadablePage as error:
                        unreadable = error
                        reading.cancel()
                await trio.lowlevel.cancel_shielded_checkpoint()
    if unreadable is not None:
        raise unreadable


def _fault(error: Exception) -> Bad | Ours:
    """Whose failure it was. Only the kind is kept: the text may quote a header."""
    if isinstance(error, UnreadablePage):
        return Bad(cause="protocol")
    ours = own_fault(error)
    if ours is not None:
        return Ours(why=ours)
    cause = cause_of(error)
    if cause is None:
        return Ours(why=f"{type(error).__name__} in the scraper")
    return Bad(cause=cause)
