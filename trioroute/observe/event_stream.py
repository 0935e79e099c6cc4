"""``GET /events``: the log as server-sent events (HTML Standard, 9.2), for a few watchers."""

import re
from collections.abc import Collection
from contextlib import aclosing
from urllib.parse import parse_qs

import attrs
import trio
from hypercorn.typing import ASGISendCallable

from eventlog.errors import LogError
from trioroute.events.codec import KINDS
from trioroute.observe.answer import Answer, error, shown
from trioroute.observe.feed import Feed
from trioroute.observe.guard import Headers, values

WATCHERS_MAX = 16
TAKES_AT_MOST_S = 15.0
"""A watcher that does not take a page in this time is let go; it comes back with its last id."""

_VERSION = re.compile(r"[0-9]{1,18}")
_HEAD = Answer(200, "text/event-stream", b"", ((b"x-accel-buffering", b"no"),))
"""Nginx, if one stands before, passes each event on at once."""

_FIRST = b"retry: 1000\n\n"


class WatcherLetGo(Exception):
    """A watcher was too slow: its stream must end as one that was cut."""


@attrs.frozen
class EventStream:
    """One watcher's stream: the head is ``answer``'s, the body never ends by itself."""

    desk: "StreamDesk"
    after: int
    kinds: Collection[str]
    answer: Answer = _HEAD

    async def run(self, send: ASGISendCallable) -> None:
        """Send the body until the watcher leaves or the log cannot be read.

        Raises ``desk.broken`` when the watcher is too slow.
        """
        self.desk.watching += 1
        try:
            pages = self.desk.feed.pages(self.after, self.kinds)
            async with aclosing(pages):
                await self._give(send, _FIRST)
                async for page in pages:
                    await self._give(send, page)
        except LogError:
            pass  # the end of the stream is the answer: the client asks again, and sees the state
        finally:
            self.desk.watching -= 1
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _give(self, send: ASGISendCallable, page: bytes) -> None:
        with trio.move_on_after(TAKES_AT_MOST_S) as scope:
            await send({"type": "http.response.body", "body": page, "more_body": True})
        if scope.cancelled_caught:
            raise self.desk.broken


@attrs.define
class StreamDesk:
    """Lets watchers in; ``watching`` are those there are.

    ``broken`` is what the server takes as a response that ends broken on purpose.
    """

    feed: Feed
    watching: int = 0
    broken: type[Exception] = WatcherLetGo

    def open(self, headers: Headers, query: bytes) -> Answer | EventStream:
        """The stream that was asked for, from now on unless ``since`` or Last-Event-ID say where.

        Last-Event-ID wins: a browser that reconnects sends it beside the ``since`` it began with.
        """
        asked = parse_qs(query.decode("latin-1"), keep_blank_values=True)
        told = values(headers, b"last-event-id") or asked.get("since", [])
        since = told[-1] if told else str(self.feed.log.durable_position)
        if not _VERSION.fullmatch(since):
            text = f"since is the version of an event, such as 42, not {shown(since)}"
            return error(400, "bad_request", text)
        kinds = {kind for value in asked.get("kinds", []) for kind in value.split(",") if kind}
        unknown = sorted(kinds - KINDS.keys())
        if unknown:
            text = f"no kind of event is named {shown(unknown[0])}; there are: {', '.join(KINDS)}"
            return error(400, "bad_request", text)
        if self.watching >= WATCHERS_MAX:
            text = f"{WATCHERS_MAX} watchers follow the events already; close one of them"
            return error(503, "too_many_watchers", text, (b"retry-after", b"5"))
        return EventStream(self, int(since), kinds)
