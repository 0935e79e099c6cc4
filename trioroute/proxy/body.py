"""Reading a request's body for its model and keys, without touching what goes on to the replica."""

import json
import re
import zlib
from collections.abc import Mapping
from typing import cast

import orjson

from trioroute.proxy.errors import RouterError
from trioroute.proxy.headers import RawHeaders, header_value

JsonObject = Mapping[str, object]

_BOUNDARY = re.compile(rb'boundary="?([^";,]+)"?', re.IGNORECASE)
_WINDOW = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
"""zlib's window bits: 31 reads a gzip header, 15 a zlib one (RFC 9110 8.4.1)."""

PART_HEAD_BYTES = 4096
MODEL_BYTES = 1024


class UnusableBody(Exception):
    """The body cannot be read where it has to be; ``error`` is the answer."""

    def __init__(self, error: RouterError) -> None:
        super().__init__(error.message)
        self.error = error


def is_json(headers: RawHeaders) -> bool:
    """JSON is also what a client sends that names no type at all."""
    kind = header_value(headers, b"content-type")
    return kind is None or b"json" in kind.lower()


def plain_body(headers: RawHeaders, body: bytes, limit: int) -> bytes:
    """A copy of the body without its content coding, at most ``limit`` bytes long."""
    coding = header_value(headers, b"content-encoding")
    if coding is None or coding.strip().lower() in (b"", b"identity"):
        return body
    window = _WINDOW.get(coding.strip().lower())
    if window is None:
        raise UnusableBody(
            RouterError(
                "unsupported_encoding",
                f"content-encoding {coding.decode('latin-1')!r} cannot be read here; "
                "send gzip, deflate or no coding",
            )
        )
    inflate = zlib.decompressobj(window)
    try:
        plain = inflate.decompress(body, limit + 1)
    except zlib.error as error:
        raise UnusableBody(_invalid(f"the compressed body is damaged: {error}")) from error
    if len(plain) > limit:
        raise UnusableBody(
            RouterError("body_too_large", f"the body inflates to more than {limit} bytes")
        )
    if not inflate.eof:
        raise UnusableBody(_invalid("the compressed body ends too early"))
    return plain


def read_json(body: bytes) -> JsonObject:
    """The body as a JSON object. Raises UnusableBody (400) for anything else."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        value = _with_lone_surrogates(body, error)
    if not isinstance(value, dict):
        raise UnusableBody(
            _invalid(f"the body must be a JSON object, not {_json_kind(value)}: see your client")
        )
    return cast("JsonObject", value)


def _with_lone_surrogates(body: bytes, error: orjson.JSONDecodeError) -> object:
    """An escaped lone surrogate is valid JSON, but only the standard library reads it."""
    if b"\\ud" not in body and b"\\uD" not in body:
        raise UnusableBody(_invalid(f"the body is not JSON: {error}")) from error
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
    kind = header_value(headers, b"content-type") or b""
    found = _BOUNDARY.search(kind)
    if not kind.lower().startswith(b"multipart/form-data") or found is None:
        return None
    delimiter = b"\r\n--" + found.group(1)
    at = body.find(b'name="model"')
    while at >= 0:
        end_of_head = body.find(b"\r\n\r\n", at, at + PART_HEAD_BYTES)
        head = body[max(0, at - PART_HEAD_BYTES) : at]
        in_head = b"content-disposition" in head[head.rfind(b"\r\n--") + 1 :].lower()
        if end_of_head >= 0 and in_head:
            start = end_of_head + 4
            end = body.find(delimiter, start, start + MODEL_BYTES + len(delimiter))
            if end >= 0:
                return body[start:end].decode("utf-8", "replace")
        at = body.find(b'name="model"', at + 1)
    return None
