"""What ``trioroute top`` knows of a router: its state, and what the stream of events told."""

import json
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, cast

import attrs
import httpx
import orjson
import trio

from trioroute.cli.admin_port import TIMEOUT_S, refusal
from trioroute.counted import plural
from trioroute.events import UnreadableEvent, decode
from trioroute.events.codec import KINDS
from trioroute.replay.words import health_words

PAST_EVENTS = 3000
DECISIONS = 12
INCIDENTS = 8
SLOT_MS = 15_000
SLOTS = 20
"""Five minutes of traffic share."""

SILENCE_S = 30.0
"""The stream says that it lives every ten."""

_LINE_END = re.compile(rb"\r\n|\r|\n")

_REPLICA = ("Ejected", "Probing", "Live", "Draining", "ReplicaJoined", "ReplicaLeft")
_ROUTER = ("Started", "Stopped", "Orphaned", "Configured", "Gap", "Refused", "StoodStill")
_WANTED = ("Dispatched", "Released", "Failed", *_REPLICA, *_ROUTER)


class Refused(Exception):
    """The admin port answered with an error; the text is its message."""

    def __init__(self, told: object, status: int) -> None:
        super().__init__(refusal(told, status))
        self.status = status


@attrs.define
class Decision:
    name: str
    at_ms: int
    replica: str
    reason: str
    model: str
    attempt: int
    end: str = "running"


@attrs.define
class Incident:
    at_ms: int
    text: str
    times: int = 1


@attrs.define
class Watched:
    """``seen`` is the version up to which events were taken; ``trouble`` is empty if all is well.

    ``slots`` counts dispatches by slot of time and replica.
    """

    state: dict[str, Any] = attrs.field(factory=dict)
    seen: int = -1
    trouble: str = ""
    decisions: deque[Decision] = attrs.field(factory=lambda: deque[Decision](maxlen=DECISIONS))
    incidents: deque[Incident] = attrs.field(factory=lambda: deque[Incident](maxlen=INCIDENTS))
    slots: dict[int, dict[str, int]] = attrs.field(factory=dict)

    def since(self) -> int:
        """Where to go on: after what was seen, or a little before now."""
        durable = int(self.state["durable_position"])
        if not 0 <= self.seen <= durable or durable - self.seen > PAST_EVENTS:
            self.seen = max(0, durable - PAST_EVENTS)
        return self.seen

    def take(self, event: dict[str, Any]) -> None:
        """One event as ``/events`` tells it."""
        kind, body, at_ms = event["kind"], event["body"], event["at_ms"]
        if kind == "Dispatched":
            self._dispatched(event["version"], at_ms, body)
        elif kind == "Released":
            self._ended(body["dispatch"], body["outcome"])
        elif kind == "Failed":
            self._ended(body["dispatch"], f"failed: {body['cause']}")
        elif kind in _REPLICA or kind in _ROUTER:
            for dispatch in body.get("dispatches", ()) if kind == "Orphaned" else ():
                self._ended(dispatch, "cut off: the router died")
            self._happened(at_ms, _words(kind, at_ms, body, event.get("changed")))

    def _dispatched(self, version: int, at_ms: int, body: dict[str, Any]) -> None:
        name = f"{self.state['router']}/{version}"
        where, attempt = body["replica"], body["attempt"]
        self.decisions.append(Decision(name, at_ms, where, body["reason"], body["model"], attempt))
        counts = self.slots.setdefault(at_ms // SLOT_MS, {})
        counts[where] = counts.get(where, 0) + 1
        for slot in [slot for slot in self.slots if slot <= at_ms // SLOT_MS - SLOTS]:
            del self.slots[slot]

    def _ended(self, dispatch: int, end: str) -> None:
        for decision in self.decisions:
            if decision.name.endswith(f"/{dispatch}"):
                decision.end = end

    def _happened(self, at_ms: int, text: str) -> None:
        if self.incidents and self.incidents[-1].text == text:
            self.incidents[-1].times += 1
        else:
            self.incidents.append(Incident(at_ms, text))

    def shares(self, replica: str) -> list[float | None]:
        """Its part of the dispatches, slot by slot, oldest first; None where nothing came."""
        newest = int(self.state["at_ms"]) // SLOT_MS
        counts = [self.slots.get(slot, {}) for slot in range(newest - SLOTS + 1, newest + 1)]
        return [one.get(replica, 0) / sum(one.values()) if one else None for one in counts]

    def as_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "trouble": self.trouble,
            "decisions": [attrs.asdict(one) for one in self.decisions],
            "incidents": [attrs.asdict(one) for one in self.incidents],
        }


def _words(kind: str, at_ms: int, body: dict[str, Any], changed: list[str] | None) -> str:
    if "omitted_bytes" in body:
        return f"{kind}, too long to be told"
    if kind == "Started":
        return f"router started, release {body['release']}"
    if kind == "Gap" and body.get("unlogged"):
        return f"{plural(body['unlogged'], 'response')} went out unlogged"
    if kind == "Refused":
        return f"refused: {body['code']}"
    if kind == "StoodStill":
        return f"the router stood still for {body['for_ms'] / 1000:.1f} s"
    if kind == "Orphaned":
        ran = plural(len(body["dispatches"]), "request")
        if body.get("ends_lost"):
            return f"the ends of {ran} are lost with the last events of the run before"
        return f"the router had died under {ran}"
    if kind == "Configured" and changed:
        return f"other settings in force: {', '.join(changed)}"
    if kind not in _REPLICA:
        return {"Stopped": "router stopped", "Gap": "events are missing"}.get(
            kind, "settings in force"
        )
    try:
        event = decode(kind, KINDS[kind].schema, orjson.dumps(body))
    except UnreadableEvent:
        return f"{body.get('replica')}: {kind}"
    return f"{body['replica']}: {health_words(event, at_ms)}"


async def look(client: httpx.AsyncClient, watched: Watched) -> None:
    """Ask for the state. Raises what httpx raises, JSONDecodeError, Refused."""
    answer = await client.get("/state?with=traffic_share&with=score")
    told = answer.json()
    if answer.is_error:
        raise Refused(told, answer.status_code)
    watched.state = told
    watched.trouble = ""


async def follow(client: httpx.AsyncClient, watched: Watched, until: int | None = None) -> None:
    """Take events as they come; up to ``until`` if it is given.

    Raises what httpx raises, Refused.
    """
    since = watched.since()
    if until is not None and since >= until:
        return
    asked: dict[str, str] = {"since": str(since)}
    if until is None:
        asked["kinds"] = ",".join(_WANTED)
    patience = httpx.Timeout(TIMEOUT_S, read=SILENCE_S)
    async with client.stream("GET", "/events", params=asked, timeout=patience) as answer:
        if answer.is_error:
            raise Refused(json.loads(await answer.aread()), answer.status_code)
        stream = _Stream()
        brought = cast("AsyncGenerator[bytes, None]", answer.aiter_bytes())
        async with aclosing(brought) as pieces:
            async for piece in pieces:
                for version, data in stream.take(piece):
                    if data:
                        watched.take(json.loads(data))
                    watched.seen = version
                    if until is not None and version >= until:
                        return


async def follow_for_ever(client: httpx.AsyncClient, watched: Watched) -> None:
    """Follow, and begin anew where it stopped whenever the stream breaks."""
    while True:
        try:
            await look(client, watched)  # an older state would make what was seen another log's
            await follow(client, watched)
        except (httpx.HTTPError, json.JSONDecodeError, Refused) as error:
            watched.trouble = f"the stream of events is broken: {error}"
        await trio.sleep(1)


@attrs.define
class _Stream:
    """Server-sent events out of the bytes they come in.

    Their lines end in CR LF, LF or CR (WHATWG HTML 9.2.6). httpx also ends one at U+2028, U+2029
    and NEL, which stand in JSON as they are: a model may be named so.
    """

    _rest: bytes = b""
    _fields: dict[str, str] = attrs.field(factory=dict)

    def take(self, piece: bytes) -> Iterator[tuple[int, str]]:
        """Version and data of each event; no data for a beat and for named events."""
        begun = self._rest + piece
        held = b"\r" if begun.endswith(b"\r") else b""  # its LF may be on the way
        *lines, rest = _LINE_END.split(begun.removesuffix(held))
        self._rest = rest + held
        for line in lines:
            if line:
                name, _, value = line.decode("utf-8", "replace").partition(": ")
                self._fields[name] = value
                continue
            fields, self._fields = self._fields, {}
            if "id" in fields:
                yield int(fields["id"]), "" if "event" in fields else fields.get("data", "")
