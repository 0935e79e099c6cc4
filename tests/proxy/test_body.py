"""Reading bodies: JSON, forms, codings."""

import gzip
import random
import zlib
from collections.abc import Callable
from contextlib import suppress

import brotli
import pytest
import zstandard

from tests.proxy.work import assert_linear, cpu_s
from trioroute.proxy.body import (
    PARTS_MAX,
    UnusableBody,
    is_json,
    multipart_model,
    plain_body,
    read_json,
)

FORM = [(b"content-type", b"multipart/form-data; boundary=XX")]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (None, True),
        (b"application/json", True),
        (b"Application/JSON; charset=utf-8", True),
        (b"application/vnd.api+json", True),
        (b"multipart/form-data; boundary=x", False),
        (b"text/plain", False),
        (b"", False),
    ],
)
def test_what_counts_as_json(kind: bytes | None, expected: bool) -> None:
    assert is_json([] if kind is None else [(b"content-type", kind)]) is expected


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"[1]", "an array"),
        (b'"x"', "a string"),
        (b"null", "null"),
        (b"true", "a boolean"),
        (b"1.5", "a number"),
        (b"", "not JSON"),
        (b'{"a":"\xff"}', "not JSON"),
        (b'{"a":"\\ud800" NaN}', "not JSON"),
    ],
)
def test_the_refusal_says_what_was_found(body: bytes, says: str) -> None:
    with pytest.raises(UnusableBody) as refused:
        read_json(body)
    assert says in refused.value.error.message
    assert (refused.value.error.code, refused.value.error.status) == ("invalid_request", 400)


def test_lone_surrogates_and_byte_order_marks_are_read() -> None:
    assert read_json(b'{"a":"\\ud800x"}') == {"a": "\ud800x"}
    assert read_json(b'\xef\xbb\xbf{"a":1}') == {"a": 1}
    assert read_json(b'\xef\xbb\xbf{"a":"\\uDFFF"}') == {"a": "\udfff"}


@pytest.mark.parametrize("headers", [[], [(b"content-encoding", b"identity")]])
def test_a_plain_body_is_not_copied(headers: list[tuple[bytes, bytes]]) -> None:
    body = b"{}"
    assert plain_body(headers, body, 1) is body


PACKERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"br": brotli.compress,
    b"zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("size", [0, 1, 999, 1000])
def test_what_inflates_up_to_the_limit_is_read(size: int) -> None:
    data = b"x" * size
    for coding, pack in PACKERS.items():
        if size or coding != b"zstd":
            assert plain_body([(b"content-encoding", coding)], pack(data), 1000) == data


def code_of(coding: bytes, packed: bytes) -> str:
    with pytest.raises(UnusableBody) as refused:
        plain_body([(b"content-encoding", coding)], packed, 1000)
    return refused.value.error.code


def test_what_is_wrong_with_a_coding() -> None:
    assert code_of(b"gzip", gzip.compress(b"x" * 1001)) == "body_too_large"
    assert code_of(b"gzip", gzip.compress(b"x" * 600) * 2) == "body_too_large"
    assert code_of(b"gzip", gzip.compress(b"x")[:-1]) == "invalid_request"
    assert code_of(b"gzip", gzip.compress(b"x") + b"more") == "invalid_request"
    assert code_of(b"gzip", zlib.compress(b"x")) == "invalid_request"
    assert code_of(b"gzip", b"") == "invalid_request"
    assert code_of(b"compress", b"x") == "unsupported_encoding"


@pytest.mark.parametrize("coding", [b"br", b"zstd"])
def test_what_is_wrong_with_br_and_zstd(coding: bytes) -> None:
    pack = PACKERS[coding]
    assert code_of(coding, pack(b"x" * 1001)) == "body_too_large"
    assert code_of(coding, pack(b"x" * 10_000_000)) == "body_too_large"
    assert code_of(coding, b"not compressed") == "invalid_request"
    assert code_of(coding, b"") == "invalid_request"
    whole = random.Random(1).randbytes(900)
    with suppress(UnusableBody):  # zstd gives what it has; JSON that stops short is refused then
        assert plain_body([(b"content-encoding", coding)], pack(whole)[:-5], 1000) != whole


def test_two_codings_in_two_headers_are_two() -> None:
    headers = [(b"content-encoding", b"gzip"), (b"content-encoding", b"br")]
    with pytest.raises(UnusableBody, match="gzip,br"):
        plain_body(headers, gzip.compress(b"{}"), 1000)


def part(head: str, value: str) -> bytes:
    return f"--XX\r\n{head}\r\n\r\n{value}\r\n".encode()


FILE = part('Content-Disposition: form-data; name="file"; filename="a"\r\nContent-Type: x/y', "abc")
MODEL = part('Content-Disposition: form-data; name="model"', "org/m-1")
END = b"--XX--\r\n"


@pytest.mark.parametrize(
    "body",
    [
        MODEL + END,
        FILE + MODEL + END,
        FILE * (PARTS_MAX - 1) + MODEL + END,
        part('Content-Disposition: form-data; filename="a;b"; name="model" ', "org/m-1") + END,
        b"--XX\r\n" * 100 + MODEL + END,
        b"preamble\r\n" + FILE + MODEL + END,
        FILE + part("content-disposition: FORM-DATA; NAME=model", "org/m-1") + END,
        part('X: y\r\nContent-Disposition: form-data; name="model"; x=y\r\nZ: z', "org/m-1") + END,
        part('Content-Disposition: form-data; name="file"; filename="model"', "evil") + MODEL + END,
        part('Content-Disposition: form-data; name="model_path"', "evil") + MODEL + END,
        part("X: y", 'Content-Disposition: form-data; name="model"\r\n\r\nevil') + MODEL + END,
    ],
)
def test_the_model_field_is_found_and_nothing_else(body: bytes) -> None:
    assert multipart_model(FORM, body) == "org/m-1"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        END,
        FILE + END,
        part('Content-Disposition: form-data; name="model"', "m" * 2000) + END,
        MODEL[:-2],
        b"--XX\r\n" * 5000 + MODEL,
        FILE * PARTS_MAX + MODEL + END,
        part('Content-Disposition: form-data; filename="; name=model; "', "evil") + END,
        part('Content-Disposition: form-data; filename="\\"; name=\\"model"', "evil") + END,
        part('Content-Disposition: form-data; filename="; name="model"', "evil") + END,
        part("X: content-disposition: form-data; name=model", "evil") + END,
    ],
)
def test_a_form_without_a_usable_model(body: bytes) -> None:
    assert multipart_model(FORM, body) is None


def test_the_boundary_may_be_quoted() -> None:
    quoted = [(b"content-type", b'Multipart/Form-Data; charset=x; boundary="XX"')]
    assert multipart_model(quoted, MODEL + END) == "org/m-1"
    for kind in (b"multipart/form-data", b"text/plain; boundary=XX", b""):
        assert multipart_model([(b"content-type", kind)], MODEL + END) is None


def test_a_body_of_too_many_values_is_refused_before_they_are_made() -> None:
    with pytest.raises(UnusableBody, match="more than 200000"):
        read_json(b'{"a":[' + b"[]," * 200_001 + b"0]}")
    assert read_json(b'{"a":[' + b"[]," * 100_000 + b"0]}")


HEADS = [
    b"content-disposition:",
    b"\r\ncontent-disposition:",
    b"\r\ncontent-disposition: a; name=",
    b"; name=mode",
    b";name=modem ",
    b';"',
    b'"',
    b'\\"',
    b"a\r\n",
    b" ",
    b"",
]


@pytest.mark.parametrize("piece", HEADS)
@pytest.mark.parametrize("start", [b"\r\n", b"\r\ncontent-disposition:;name=model-"])
def test_a_form_takes_time_by_its_bytes(start: bytes, piece: bytes) -> None:
    form = [(b"content-type", b"multipart/form-data; boundary=a")]
    head = (start + piece * 2000)[:3480]
    block = b"\r\n--a" * 96 + head + b"\r\n\r\n"

    def read(size: int) -> None:
        assert multipart_model(form, block * (size // len(block))) is None

    assert_linear(read, 20_000)
    assert cpu_s(lambda: read(250_000)) < 0.05


@pytest.mark.parametrize("boundary", [b"a", b"aaab", b"a" * 199 + b"b", b"-" * 70])
def test_looking_for_a_boundary_takes_time_by_the_bytes(boundary: bytes) -> None:
    form = [(b"content-type", b"multipart/form-data; boundary=" + boundary)]
    pieces = (b"a", b"\r\n--" + boundary[:-1], b"\r\n--", b"-", b"\r\n")

    def read(size: int) -> None:
        for piece in pieces:
            multipart_model(form, piece * (size // len(piece)))

    assert_linear(read, 60_000)
