"""``GET /v1/models``: the union over the LIVE replicas (HTTP.md)."""

import orjson
import trio

from trioroute.projections import Replica
from trioroute.proxy.desk import Desk
from trioroute.proxy.first_event import next_chunk
from trioroute.proxy.upstream.error import UpstreamError
from trioroute.proxy.upstream.message import Outgoing, UpstreamStream

ASK_TIMEOUT_S = 2.0
LIST_BYTES_MAX = 4 << 20


async def models_list(desk: Desk) -> bytes:
    """The list as the replicas tell it, one replica asked per distinct set of models.

    A model whose replica does not answer in time is listed by name alone.
    """
    state = desk.router.state
    asked: dict[tuple[str, ...], Replica] = {}
    for name, replica in state.fleet.replicas.items():
        if state.standing(name) == "LIVE":
            asked.setdefault(replica.models, replica)
    told: dict[str, object] = {}
    async with trio.open_nursery() as nursery:
        for replica in asked.values():
            nursery.start_soon(_ask, desk, replica.name, replica.url, told)
    listed: dict[str, object] = {}
    for models in asked:
        for model in models:
            listed[model] = told.get(model) or {
                "id": model,
                "object": "model",
                "created": 0,
                "owned_by": "unknown",
            }
    for alias, model in desk.settings.models.aliases.items():
        meant = listed.get(model)
        if isinstance(meant, dict):
            listed[alias] = {**meant, "id": alias}
    return orjson.dumps({"object": "list", "data": list(listed.values())})


async def _ask(desk: Desk, name: str, url: str, told: dict[str, object]) -> None:
    upstream = desk.upstreams.of(name, url)
    headers = [(b"host", upstream.host), (b"accept", b"application/json")]
    key = desk.upstreams.authorizations.get(name)
    if key is not None:
        headers.append((b"authorization", key))
    request = Outgoing("GET", upstream.prefix + b"/v1/models", headers)
    with trio.move_on_after(ASK_TIMEOUT_S):
        try:
            answer = await upstream.transport.exchange(request)
            listed = orjson.loads(await _body(answer.stream))
        except (UpstreamError, orjson.JSONDecodeError):
            return
        entries = listed.get("data") if isinstance(listed, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("id"), str):
                told.setdefault(entry["id"], entry)


async def _body(stream: UpstreamStream) -> bytes:
    """At most LIST_BYTES_MAX of it; b"" for a longer one."""
    body = b""
    try:
        while (chunk := await next_chunk(stream)) is not None:
            body += chunk
            if len(body) > LIST_BYTES_MAX:
                return b""
        return body
    finally:
        stream.close()
