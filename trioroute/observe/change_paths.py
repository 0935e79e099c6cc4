"""The paths of the admin port that change something: who may stand in the fleet, and the reload."""

import re
from collections.abc import Callable
from itertools import islice
from typing import Any
from urllib.parse import parse_qs

import attrs
import orjson

from trioroute.observe.answer import Answer, error, json_answer, shown
from trioroute.observe.changes import (
    WHY_MAX,
    BadReplica,
    Changes,
    NoSuchReplica,
    ReplicaExists,
)
from trioroute.observe.pools import last_note
from trioroute.projections import State

_VERB = re.compile(r"/replicas/(?P<name>.+)/(?P<verb>drain|undrain|eject)", re.DOTALL)
_REPLICA = re.compile(r"/replicas/(?P<name>.+)", re.DOTALL)


def allowed_changes(path: str) -> tuple[str, ...]:
    """The methods of a path that changes something; none: it is no such path."""
    if path in ("/replicas", "/reload") or _VERB.fullmatch(path):
        return ("POST",)
    return ("DELETE",) if _REPLICA.fullmatch(path) else ()


@attrs.frozen
class ChangeOffice:
    changes: Changes
    state: Callable[[], State]

    async def answer(self, path: str, query: bytes, body: bytes) -> Answer:
        """May raise a LogError."""
        asked = parse_qs(query.decode("latin-1"), keep_blank_values=True)
        why = asked.get("why", [""])[-1]
        if len(why) > WHY_MAX or not why.isprintable():
            text = f"why is one printable line of at most {WHY_MAX} characters"
            return error(400, "bad_request", text)
        try:
            if path == "/reload":
                return await self._reload(why)
            if path == "/replicas":
                return self._add(body, why)
            verb = _VERB.fullmatch(path)
            if verb is not None:
                return self._place(verb["name"], verb["verb"], why)
            found = _REPLICA.fullmatch(path)
            assert found is not None, "no other path allows a method"
            return self._remove(found["name"], why, now="now" in asked)
        except NoSuchReplica as unknown:
            known = ", ".join(islice(self.state().fleet.replicas, 20)) or "none"
            message = f"there is no replica {shown(str(unknown))}; there are: {known}"
            return error(404, "replica_not_found", message)

    async def _reload(self, why: str) -> Answer:
        told = await self.changes.reload(why)
        if told.result == "rejected":
            lines = "; ".join(
                ": ".join(part for part in problem.values() if part) for problem in told.problems
            )
            message = f"nothing was changed: {lines}"
            return error(422, "configuration_rejected", message, problems=told.problems)
        return json_answer(
            {
                "result": told.result,
                "changed": list(told.changed),
                "digest": told.digest,
                "position": self.state().position,
                "restart_needed": list(told.restart),
            }
        )

    def _add(self, body: bytes, why: str) -> Answer:
        try:
            told = orjson.loads(body)
        except orjson.JSONDecodeError:
            told = None
        if not isinstance(told, dict):
            text = 'send a JSON object such as {"name": "gpu3", "url": "http://10.0.0.3:8000"}'
            return error(400, "bad_request", text)
        try:
            before = self.state().position
            name = self.changes.add(told, why)
        except BadReplica as bad:
            return error(400, "bad_request", str(bad))
        except ReplicaExists as taken:
            return error(409, "replica_exists", str(taken))
        return json_answer(self._told(name), 201 if self.state().position > before else 200)

    def _place(self, name: str, verb: str, why: str) -> Answer:
        if verb == "eject":
            self.changes.eject(name, why)
        else:
            self.changes.drain(name, verb == "drain", why)
        told = self._told(name)
        note = self._after(name, verb, told["state"])
        return json_answer({**told, "note": note} if note else told)

    def _after(self, name: str, verb: str, standing: str) -> str:
        """What somebody may not expect of a replica that was out of traffic already."""
        if verb == "undrain" and standing == "EJECTED":
            state = self.state()
            left_ms = state.health[name].until_ms - state.at_ms
            return "it was ejected meanwhile: two good scrapes bring it back" + (
                f" when its cooldown is over, in {left_ms // 1000 + 1} s" if left_ms > 0 else ""
            )
        if verb == "eject" and self.state().health[name].stage != "EJECTED":
            return f"nothing was changed: it is {standing}, so no request goes there anyway"
        if verb in ("drain", "eject"):
            return last_note(self.state(), name, verb)
        return ""

    def _remove(self, name: str, why: str, *, now: bool) -> Answer:
        configured = self.changes.remove(name, why, now=now)
        told = self._told(name)
        notes = [last_note(self.state(), name, "drain")]
        if configured:
            notes.append("the configuration file still names it: a reload or restart adds it")
        if note := "; ".join(filter(None, notes)):
            told["note"] = note
        return json_answer(told)

    def _told(self, name: str) -> dict[str, Any]:
        state = self.state()
        known = state.fleet.replicas.get(name)
        load = state.load.replicas.get(name)
        return {
            "replica": name,
            "state": "LEFT" if known is None else state.standing(name),
            "in_flight": 0 if load is None else load.own,
        }
