"""Asking with the official client, and noting everything that a test wants to know of it."""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import attrs
import httpx
import openai
import orjson
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionChunk

from tests.e2e.fleet import RouterProcess, wait_for

BROKEN = (openai.APIError, httpx.HTTPError)
"""What a client may meet: a status, an error event, or an answer that breaks off."""


def client_of(url: str) -> openai.OpenAI:
    """The official client; it tries nothing again, for every error is to be seen."""
    return openai.OpenAI(base_url=url + "/v1", api_key="unused", max_retries=0, timeout=60)


@attrs.define
class Told:
    """One answer. ``finish`` is None and ``error`` tells why when it did not come to an end."""

    streamed: bool
    replica: str | None = None
    decision: str | None = None
    reason: str | None = None
    text: str = ""
    pieces: int = 0
    finish: str | None = None
    usage: CompletionUsage | None = None
    error: str | None = None
    last_at: float = 0.0
    ended_at: float = 0.0

    @property
    def whole(self) -> bool:
        """As long as was asked for, and ended properly."""
        return self.error is None and self.finish == "length"

    def head(self, headers: Mapping[str, str]) -> None:
        self.replica = headers.get("x-trioroute-replica")
        self.decision = headers.get("x-trioroute-decision")
        self.reason = headers.get("x-trioroute-reason")

    def take(self, chunk: ChatCompletionChunk) -> None:
        self.last_at = time.monotonic()
        self.usage = chunk.usage or self.usage
        for choice in chunk.choices:
            piece = choice.delta.content or ""
            self.text += piece
            self.pieces += bool(piece)
            self.finish = choice.finish_reason or self.finish


def ask(
    client: openai.OpenAI,
    content: str,
    *,
    streamed: bool,
    tokens: int = 16,
    session: str | None = None,
    at_first: Callable[[Told], None] = lambda told: None,
) -> Told:
    """One chat of exactly ``tokens`` tokens. ``at_first`` gets a stream at its first text."""
    told = Told(streamed)
    headers = {} if session is None else {"x-session-id": session}
    fields: dict[str, Any] = {
        "model": "tiny",
        "messages": [{"role": "user", "content": content}],
        "max_tokens": tokens,
        "temperature": 0,
        "extra_body": {"ignore_eos": True},
        "extra_headers": headers,
    }
    try:
        if streamed:
            _streamed(client, told, fields, at_first)
        else:
            raw = client.chat.completions.with_raw_response.create(**fields)
            told.head(raw.headers)
            answer = raw.parse()
            told.text = answer.choices[0].message.content or ""
            told.finish = answer.choices[0].finish_reason
            told.usage = answer.usage
    except BROKEN as error:
        told.error = f"{type(error).__name__}: {error}"
        if isinstance(error, openai.APIStatusError):
            told.head(error.response.headers)
    told.ended_at = time.monotonic()
    return told


def _streamed(
    client: openai.OpenAI, told: Told, fields: dict[str, Any], at_first: Callable[[Told], None]
) -> None:
    raw = client.chat.completions.with_raw_response.create(
        **fields, stream=True, stream_options={"include_usage": True}
    )
    told.head(raw.headers)
    with raw.parse() as stream:
        for chunk in stream:
            first = not told.pieces
            told.take(chunk)
            if first and told.pieces:
                at_first(told)


@attrs.define
class Load:
    """What the users of ``under_load`` were told so far."""

    told: list[Told] = attrs.field(factory=list)
    stop: threading.Event = attrs.field(factory=threading.Event)

    def served(self) -> int:
        return sum(told.whole for told in self.told)

    def more(self, answers: int) -> None:
        """Wait until that many more were served."""
        wanted = self.served() + answers
        wait_for(f"{answers} more answers", lambda: self.served() >= wanted, 60)


@contextmanager
def under_load(url: str, users: int, *, sessions: bool) -> Iterator[Load]:
    """Users that ask again and again, whole and streamed in turn, until the block is left."""
    load = Load()

    def user(number: int) -> None:
        with client_of(url) as client:
            turn = 0
            while not load.stop.is_set():
                turn += 1
                load.told.append(
                    ask(
                        client,
                        f"user {number} turn {turn}",
                        streamed=turn % 2 == 0,
                        tokens=40,
                        session=f"user-{number}" if sessions else None,
                    )
                )
                if load.told[-1].error is not None:
                    time.sleep(0.05)

    with ThreadPoolExecutor(users) as pool:
        asking = [pool.submit(user, number) for number in range(users)]
        try:
            yield load
        finally:
            load.stop.set()
    for each in asking:
        each.result()


def released(router: RouterProcess, decision: str | None) -> dict[str, Any]:
    """How a dispatch ended, as the log has it."""
    assert decision is not None
    path = router.log / "log-1.sqlite"
    query = (
        "SELECT body FROM events WHERE kind = 'Released' AND json_extract(body, '$.dispatch') = ?"
    )

    def look() -> dict[str, Any] | None:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as log:
            row = log.execute(query, (int(decision.partition("/")[2]),)).fetchone()
        return None if row is None else orjson.loads(row[0])

    found: dict[str, Any] = wait_for(f"{decision} released", look, 5)
    return found
