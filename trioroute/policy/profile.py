"""What the rules want to know of a request: its model, its keys and its size.

Prompt text stops here: it is measured and digested, never kept. Works on the parsed JSON body and
on header values, and tolerates every shape, because judging a body is the replica's business.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache

import attrs

from trioroute.events.sections import Pins
from trioroute.policy.keys import digest_key

JsonObject = Mapping[str, object]
HeaderValue = Callable[[str], str | None]

PROMPT_FIELDS = (
    "messages",
    "system",
    "instructions",
    "prompt",
    "input",
    "query",
    "documents",
    "text_1",
    "text_2",
    "queries",
    "items",
)
"""Where the prompts of OpenAI's, Anthropic's and vLLM's requests are."""

INNER_FIELDS = ("content", "text", "input", "output", "arguments", "function", "tool_calls")
"""What is prompt text inside a message or a part; images and audio are not text."""

BYTES_PER_TOKEN_ID = 4
DEPTH_MAX = 12
SYSTEM_ROLES = ("system", "developer")


@attrs.frozen(slots=True)
class Profile:
    """``session``, ``prefix`` and ``response`` are keyed digests or None; sizes in bytes.

    ``blocks`` are those of ``policy.blocks``, empty unless the policy in force asks for them.
    """

    model: str
    prompt_bytes: int
    session: str | None
    prefix: str | None
    response: str | None
    blocks: tuple[int, ...] = ()


def profile(
    body: JsonObject,
    header: HeaderValue,
    *,
    model: str,
    project: str,
    settings: Pins,
    secret: bytes,
    response: str | None = None,
) -> Profile:
    """The profile of one request; ``header`` looks a lower-case name up, ``project`` may be "".

    ``response`` is the digest of the response that is followed up or asked for (RULES 5.11).
    """
    session = session_key(body, header, settings)
    prefix = prefix_key(body, settings.prefix_chars)
    return Profile(
        model,
        prompt_bytes(body),
        digest_key(secret, "session", model, session) if session else None,
        digest_key(secret, "prefix", model, f"{prefix}\0{project}") if prefix else None,
        response,
    )


def session_key(body: JsonObject, header: HeaderValue, settings: Pins) -> str | None:
    """RULES 5.1: the first header that is present, then the first field of the body."""
    for name in settings.session_headers:
        value = header(name)
        if value:
            return value
    for path in _split(settings.session_fields):
        found: object = body
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        if isinstance(found, str) and found:
            return found
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
    return None


@cache
def _split(paths: tuple[str, ...]) -> list[list[str]]:
    return [path.split(".") for path in paths]


def prefix_key(body: JsonObject, chars: int) -> str | None:
    """RULES 5.2: MD5 of the first characters of the system prompt; None without one."""
    text = system_prompt(body, chars)
    if not text:
        return None
    data = text[:chars].encode("utf-8", "surrogatepass")
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def system_prompt(body: JsonObject, chars: int) -> str:
    """At least the first ``chars`` characters of everything that instructs the model."""
    parts: list[str] = []
    length = 0
    for text in _instructions(body):
        parts.append(text)
        length += len(text)
        if length >= chars:
            break
    return "\n".join(parts)


def _instructions(body: JsonObject) -> Iterator[str]:
    yield from _texts(body.get("system"))
    yield from _texts(body.get("instructions"))
    for field in ("messages", "input"):
        messages = body.get(field)
        if not isinstance(messages, list) or is_token_ids(messages):
            continue
        for message in messages:
            if isinstance(message, dict) and message.get("role") in SYSTEM_ROLES:
                yield from _texts(message.get("content"))


def _texts(value: object) -> Iterator[str]:
    """The text of a string or of a list of parts, without empty ones."""
    if is_token_ids(value):
        return
    for part in value if isinstance(value, list) else (value,):
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str) and text:
            yield text


def is_token_ids(value: object) -> bool:
    """By its first item: there may be a hundred thousand."""
    return isinstance(value, list) and bool(value) and type(value[0]) is int


def prompt_bytes(body: JsonObject) -> int:
    """UTF-8 bytes of the prompt text (RULES 3); a token id counts as four."""
    total = 0
    for field in PROMPT_FIELDS:
        value = body.get(field)
        if value is not None:
            total += _text_bytes(value, DEPTH_MAX)
    return total


def _text_bytes(value: object, depth: int) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if depth == 0:
        return 0
    total = 0
    if isinstance(value, list):
        if is_token_ids(value):
            return BYTES_PER_TOKEN_ID * len(value)
        for part in value:
            total += _text_bytes(part, depth - 1)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name in INNER_FIELDS:
                total += _text_bytes(inner, depth - 1)
    return total
