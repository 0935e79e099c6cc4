"""Questions about bodies, and large bodies to ask about."""

import json
from typing import Any

from trioroute.events.sections import Pins
from trioroute.proxy.bodies.facts import Facts, Nameless, Question, read_facts
from trioroute.proxy.body import UnusableBody
from trioroute.proxy.errors import RouterError

SECRET = b"s" * 32
JSON = (b"content-type", b"application/json")
TEXT = 'a line of "code" with \\ and\n\t tabs, é '


def question(**fields: Any) -> Question:
    """What a chat's body is asked where there is one pool."""
    usual: dict[str, Any] = {
        "headers": [JSON],
        "inference": True,
        "model": None,
        "response_id": None,
        "project": "",
        "otherwise": "m",
        "aliases": {},
        "pins": Pins(),
        "limit": 64 << 20,
        "with_blocks": False,
        "secret": SECRET,
    }
    return Question(**usual | fields)


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
