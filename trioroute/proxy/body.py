"""Reading a request's body for its model and keys, without touching what goes on to the replica."""

import json
import re
from collections.abc import Mapping
from typing import cast

import orjson

from trioroute.proxy.errors import RouterError
from trioroute.proxy.headers import RawHeaders, header_value
from trioroute.proxy.inflate import INFLATE, Damaged, TooLong

JsonObject = Mapping[str, object]

_BOUNDARY = re.compile(rb'boundary=(?:"([^"]{1,200})"|([^";,\s]{1,200}))', re.IGNORECASE)
_DISPOSITION = b"\r\ncontent-disposition:"
BOM = b"\xef\xbb\xbf"
VALUES_MAX = 200_000
"""Arrays and objects of a body: building more of them holds every stream up for a second."""

PARTS_MAX = 200
PART_HEAD_BYTES = 4096
PARAMETERS_MAX = 16
MODEL_BYTES = 1024


class UnusableBody(Exception):
    """The body cannot be read where it has to be; ``error`` is the answer."""

    def __init__(self, error: RouterError) -> None:
        super().__init__(error.message)
        self.error = error


class TakesLong(Exception):
    """The body holds what takes longer to read than was allowed."""


def is_json(headers: RawHeaders) -> bool:
    """JSON is also what a client sends that names no type at all."""
    return is_json_type(header_value(headers, b"content-type"))


def is_json_type(kind: bytes | None) -> bool:
    """The same of the type alone."""
    return kind is None or b"json" in kind.lower()


def plain_body(headers: RawHeaders, body: bytes, limit: int) -> bytes:
    """A copy of the body without its content coding, at most ``limit`` bytes long.

    Raises UnusableBody: 415 for a coding that is not read here, 413 over the limit, 400 damaged.
    """
    codings = [value.strip().lower() for key, value in headers if key == b"content-encoding"]
    coding = b",".join(codings)
    if coding in (b"", b"identity"):
        return body
    inflate = INFLATE.get(coding)
    if inflate is None:
        raise UnusableBody(
            RouterError(
                "unsupported_encoding",
                f"content-encoding {coding.decode('latin-1')[:100]!r} cannot be read here; "
                "send gzip, deflate, br, zstd or no coding",
            )
        )
    try:
        return inflate(body, limit)
    except Damaged as error:
        raise UnusableBody(_invalid(f"the compressed body is damaged: {error}")) from error
    except TooLong as error:
        raise UnusableBody(
            RouterError(
                "body_too_large",
                f"the body of {len(body)} bytes inflates to more than server.max_body_bytes = "
                f"{limit}: send less, or raise the limit",
            )
        ) from error


def read_json(body: bytes, quickly: bool = False) -> JsonObject:
    """The body as a JSON object. Raises UnusableBody (400) for anything else, and TakesLong where
    ``quickly`` it cannot be told: the standard library takes ten times as long.

    A byte order mark is passed over (RFC 8259 8.1 allows it), as the engines do.
    """
    body = body.removeprefix(BOM)
    # Two bytes each at least, so smaller bodies need no count: it takes as long as the parsing.
    if len(body) > 2 * VALUES_MAX and body.count(b"[") + body.count(b"{") > VALUES_MAX:
        raise UnusableBody(_invalid(f"the body holds more than {VALUES_MAX} arrays and objects"))
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        value = _with_the_standard_library(body, error, quickly)
    if not isinstance(value, dict):
        raise UnusableBody(_invalid(f"the body must be a JSON object, not {_json_kind(value)}"))
    return cast("JsonObject", value)


def _with_the_standard_library(body: bytes, error: orjson.JSONDecodeError, quickly: bool) -> object:
    """An escaped lone surrogate, or a number over 1e308, is valid JSON that orjson refuses."""
    surrogate = b"\\ud" in body or b"\\uD" in body
    if not surrogate and "infinity" not in error.msg:
        raise UnusableBody(_invalid(f"the body is not JSON: {error}")) from error
    if quickly:
        raise TakesLong
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as second:
        raise UnusableBody(_invalid(f"the body is not JSON: {error}")) from second


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    kinds: Mapping[type, str] = {list: "an array", str: "a string", bool: "a boolean"}
    return kinds.get(type(value), "a number")


def _invalid(message: str) -> RouterError:
    return RouterError("invalid_request", message)


def multipart_model(headers: RawHeaders, body: bytes) -> str | None:
    """The ``model`` field of a form (RFC 7578), as audio requests carry it."""
    span = multipart_model_span(headers, body)
    return None if span is None else body[slice(*span)].decode("utf-8", "replace")


def multipart_model_span(headers: RawHeaders, body: bytes) -> tuple[int, int] | None:
    """Where that field's value begins and ends."""
    kind = header_value(headers, b"content-type") or b""
    found = _BOUNDARY.search(kind)
    if not kind.lower().startswith(b"multipart/form-data") or found is None:
        return None
    delimiter = b"\r\n--" + (found.group(1) or found.group(2))
    at = 0 if body.startswith(delimiter[2:]) else body.find(delimiter)
    for _ in range(PARTS_MAX):
        if at < 0:
            break
        following = body.find(delimiter, at + 1)
        head_before = at + PART_HEAD_BYTES if following < 0 else following
        end_of_head = body.find(b"\r\n\r\n", at, min(head_before, at + PART_HEAD_BYTES))
        if end_of_head >= 0 and _is_model_field(body[at:end_of_head]):
            start = end_of_head + 4
            end = body.find(delimiter, start, start + MODEL_BYTES + len(delimiter))
            return (start, end) if end >= 0 else None
        at = following
    return None


def _is_model_field(head: bytes) -> bool:
    """Whether a part's content-disposition (RFC 6266 4.1) says ``name="model"``."""
    head = head.lower()
    at = head.find(_DISPOSITION)
    if at < 0:
        return False
    line = head[at + len(_DISPOSITION) :].split(b"\r\n", 1)[0].replace(b'\\"', b"'")
    pieces = line.split(b'"', 2 * PARAMETERS_MAX)
    pieces[1::2] = [quoted.replace(b";", b",") for quoted in pieces[1::2]]
    for parameter in b'"'.join(pieces).split(b";", PARAMETERS_MAX):
        name, _, value = parameter.partition(b"=")
        if name.split()[-1:] == [b"name"] and value.strip() in (b"model", b'"model"'):
            return True
    return False
