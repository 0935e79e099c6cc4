"""Questions about bodies, and large bodies to ask about."""

import json
from typing import Any

from tests.rig import settings
from trioroute.proxy.bodies.facts import Facts, Nameless, Question, read_facts
from trioroute.proxy.body import UnusableBody
from trioroute.proxy.errors import RouterError
from trioroute.proxy.headers import RawHeaders
from trioroute.proxy.paths import Route

SECRET = b"s" * 32
JSON = (b"content-type", b"application/json")
TEXT = 'a line of "code" with \\ and\n\t tabs, é '


def question(
    headers: RawHeaders = (JSON,),
    inference: bool = True,
    model: str | None = None,
    response_id: str | None = None,
    project: str = "",
    otherwise: str | None = "m",
    **sections: dict[str, Any],
) -> Question:
    """What a chat's body is asked where there is one pool; ``sections`` as in tests/rig.py."""
    route = Route(True, inference, model=model, response_id=response_id)
    return Question(list(headers), route, project, otherwise, settings(**sections), SECRET)


def prompt(size: int, **fields: object) -> bytes:
    """A chat of about so many bytes."""
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": TEXT * (size // len(TEXT) + 1)},
    ]
    return json.dumps({"model": "m", "messages": messages, **fields}).encode()


def read_here(asked: Question, body: bytes) -> Facts | Nameless | RouterError:
    try:
        return read_facts(asked, body)
    except UnusableBody as unusable:
        return unusable.error
