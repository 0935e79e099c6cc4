"""Reading beside the relay, in any pieces, in bounded memory."""

import sys

import pytest

from tests.proxy.work import assert_linear, cpu_s
from trioroute.proxy.tap import (
    EVENTS_MAX,
    HEAD_BYTES,
    TAIL_BYTES,
    USAGES_MAX,
    Tap,
    aborted,
    error_code,
    error_in_events,
)


def tap(*chunks: bytes) -> Tap:
    made = Tap()
    for chunk in chunks:
        made.feed(chunk)
    return made


def in_bytes(text: bytes) -> Tap:
    return tap(*[bytes([byte]) for byte in text])


def test_it_keeps_its_ends_and_no_more() -> None:
    made = tap(*[b"%08d" % n for n in range(100_000)])
    assert made.bytes == 800_000
    assert len(made.tail()) == TAIL_BYTES
    assert made.tail().endswith(b"00099999")
    assert sum(map(len, made._tail)) < TAIL_BYTES + 64
    assert sys.getsizeof(made._head) < HEAD_BYTES + 64
    big = tap(b"a" * 1_000_000, b"b" * 1_000_000)
    assert big.tail() == b"b" * TAIL_BYTES


def test_an_untouched_tap_knows_nothing() -> None:
    made = Tap()
    assert made.usage() == (None, None)
    assert made.error_at_end() is None
    assert made.response_id() is None
    assert not made.aborted()
    assert not made.has_event()
    assert not made.at_event_border()


USAGES = [
    (b'{"usage":{"prompt_tokens":3,"completion_tokens":4}}', (3, 4)),
    (b'{"usage" : {"input_tokens":3,"output_tokens":4}}', (3, 4)),
    (b'{"usage":{"prompt_tokens":3}}', (3, None)),
    (b'{"usage":{"prompt_tokens":0,"completion_tokens":0}}', (0, 0)),
    (b'{"usage":{"prompt_tokens":1},"usage":{"prompt_tokens":2}}', (2, None)),
    (b'{"usage":{"a":{"prompt_tokens":9},"completion_tokens":4}}', (None, 4)),
    (b'{"usage":{},"x":{"prompt_tokens":9}}', (None, None)),
    (b'{"usage":{"prompt_tokens":3', (None, None)),
    (b'{"usage":null}', (None, None)),
    (b'{"text":"\\"usage\\":{\\"prompt_tokens\\":9}"}', (None, None)),
    (b'{"usage":{"prompt_tokens":1e3,"completion_tokens":' + b"9" * 30 + b"}}", (None, None)),
]


@pytest.mark.parametrize(("text", "usage"), USAGES)
def test_usage(text: bytes, usage: tuple[int | None, int | None]) -> None:
    assert tap(text).usage() == usage
    assert in_bytes(text).usage() == usage


def test_the_first_event_of_a_messages_stream_tells_no_output_tokens() -> None:
    begin = b'data: {"type":"message_start","message":{"usage":'
    begin += b'{"input_tokens":3,"output_tokens":1}}}\n\n'
    end = b'data: {"type":"message_delta","usage":{"output_tokens":9}}\n\n'
    assert tap(begin).usage() == (3, None)
    assert tap(begin, end).usage() == (3, 9)
    assert tap(begin, b"x" * 2 * TAIL_BYTES, end).usage() == (3, 9)


ERRORS = [
    (b'{"error":{"code":503}}', 503),
    (b'{"id":"x","error":{"code":404}}', 404),
    (b'{"error":{"code":"503"}}', 500),
    (b'{"error":{"code":200}}', 500),
    (b'{"error":{}}', None),
    (b'{"error":null}', None),
    (b'{"error":"Unauthorized"}', 500),
    (b'{"type":"error","code":"server_error"}', 500),
    (b'{"type":"error","error":{"type":"overloaded_error"}}', 503),
    (b'{"type":"error","error":{"type":"rate_limit_error"}}', 429),
    (b'{"type":"error","error":{"type":"invalid_request_error"}}', 400),
    (b'{"type":"error","error":{"type":"api_error"}}', 500),
    (b'{"type":"error","error":{"type":["x"]}}', 500),
    (b'{"error":{"type":"invalid_request_error"}}', 500),
    (b'{"choices":[{"error":{"code":500}}]}', None),
    (b'{"token":"error"}', None),
    (b'["error"]', None),
    (b'{"error"', None),
    (b"[DONE]", None),
    (b"", None),
]


@pytest.mark.parametrize(("data", "code"), ERRORS)
def test_what_is_an_error(data: bytes, code: int | None) -> None:
    assert error_code(data) == code
    event = b"event: x\ndata: " + data + b"\n\n"
    for text in (event, event.replace(b"\n", b"\r\n"), event.replace(b"\n", b"\r")):
        assert error_in_events(b": ping" + text[-2:] * 2 + text) == code
        assert in_bytes(b"data: {}" + text[-2:] * 2 + text + b"data: [DONE]").error_at_end() == code


def test_only_the_last_event_is_the_end() -> None:
    error = b'data: {"error":{"code":500}}\n\n'
    assert tap(error + b'data: {"a":1}\n\n').error_at_end() is None
    assert tap(error + b": bye\n\n\n\n").error_at_end() == 500
    assert tap(b'data: {"a":1}\n\n' + error.rstrip()).error_at_end() == 500


def test_the_first_error_of_several_events_is_found() -> None:
    text = b'data: {"a":1}\n\ndata: {"error":{"code":503}}\n\ndata: {"error":{"code":500}}\n\n'
    assert error_in_events(text) == 503
    assert error_in_events(b'data: {"error":{"code":503}') is None, "not whole yet"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"finish_reason":"abort"}', True),
        (b'{"finish_reason" :\n "abort"}', True),
        (b'{"finish_reason":"stop"}', False),
        (b'{"text":"\\"finish_reason\\":\\"abort\\""}', False),
    ],
)
def test_aborts(text: bytes, expected: bool) -> None:
    assert aborted(text) is expected
    assert in_bytes(text).aborted() is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", False),
        (b": only\n\n: comments\n\n", False),
        (b"id: 1\n\n", False),
        (b"data: x\n\n", True),
        (b": ping\r\n\r\ndata:x", True),
        (b"\rdata\r\r", True),
        (b"x" * (HEAD_BYTES + 1), True),
    ],
)
def test_whether_there_was_an_event(text: bytes, expected: bool) -> None:
    assert in_bytes(text).has_event() is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"id":"resp_1-a_B"}', "resp_1-a_B"),
        (b'{"previous_response_id":"resp_0","id" : "resp_1"}', "resp_1"),
        (b'{"id":"chatcmpl-1"}', None),
        (b'{"id":"resp_' + b"x" * 300 + b'"}', None),
    ],
)
def test_response_ids(text: bytes, expected: str | None) -> None:
    assert tap(text).response_id() == expected
    assert in_bytes(text).response_id() == expected
    assert tap(text, b"x" * 100_000).response_id() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [(b"a\n\n", True), (b"a\r\n\r\n", True), (b"a\r\r", True), (b"a\n", False), (b"a", False)],
)
def test_event_borders(text: bytes, expected: bool) -> None:
    assert in_bytes(text).at_event_border() is expected


def test_braces_in_texts_of_a_usage_are_no_ends() -> None:
    text = b'{"usage":{"note":"}{\\"}","deeper":{"a":{}},"prompt_tokens":3,"completion_tokens":4}}'
    assert tap(text).usage() == (3, 4)


def test_usages_of_others_behind_the_engines_own_are_passed_over_up_to_a_bound() -> None:
    own = b'{"usage":{"prompt_tokens":3,"completion_tokens":4},"tools":['
    for others, found in ((USAGES_MAX - 1, (3, 4)), (USAGES_MAX, (None, None))):
        assert tap(own + b'{"usage":{}},' * others + b"0]}").usage() == found


HOSTILE = [
    b'"usage":{',
    b'"usage":{"',
    b'"usage":{"\\"',
    b'"usage":{}',
    b'"usage" ',
    b'"usage": ',
    b'\\"',
    b'"\\',
    b'"finish_reason" ',
    b'"id" ',
    b'"id":"resp_a',
    b" ",
    b"{",
    b"}",
    b"\n",
    b"\n\n",
    b"\r",
    b":\n\n",
    b"a\n",
    b"data:\n",
    b"data: [DONE]\n\n",
    b'data: "error"\n\n',
    b'data: "message_stop"\n\n',
    b'data: "message_stop"[[[\n',
    b'data: {"error":0}\n\n',
    b'data: "error"[[[\n',
    b'"error"\r',
    b'"error"{',
]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("tail", [b"", b"\n\n"])
def test_whatever_a_response_says_is_read_in_time_by_its_bytes(piece: bytes, tail: bytes) -> None:
    def read(size: int) -> None:
        made = tap(piece * (size // len(piece)) + tail)
        made.usage()
        made.aborted()
        made.error_at_end()
        made.done()
        made.has_event()
        made.response_id()
        error_in_events(b"data: " + piece * (size // len(piece)) + tail)

    assert_linear(read, TAIL_BYTES)
    assert cpu_s(lambda: read(4 * TAIL_BYTES)) < 0.03


def test_an_error_is_found_among_many_events_and_within_them() -> None:
    error = b'event: x\r\ndata: {"error":{"code":429}}'
    for border in (b"\n\n", b"\r\n\r\n", b"\r\r"):
        before = (b'data: {"text":"error"}' + border + b": ping" + border) * 100
        assert error_in_events(before + error) == 429
        assert error_in_events(before + error + border + before) == 429
        assert error_in_events(before.replace(b"text", b"error", 1) + error) == 500
    events = b'data: {"error":null}\n\n'
    assert error_in_events(events * (EVENTS_MAX - 1) + error) == 429
    assert error_in_events(events * EVENTS_MAX + error) is None
    deep = b'data: {"error":5,"x":' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert error_in_events(deep) is None


@pytest.mark.parametrize(
    ("told", "done"),
    [
        (b"data: [DONE]\n\n", True),
        (b"data:[DONE]\r\n\r\n", True),
        (b'event: message_stop\ndata: {"type":"message_stop"}\n\n', True),
        (b'data: {"type":"response.completed","response":{"output":[]}}\n\n', True),
        (b'data: {"type":"response.incomplete"}\n\n', True),
        (b'data: {"type":"response.failed"}\n\n', False),
        (b'data: {"type":"message_stop"}\n', False),
        (b'data: {"type":"text","text":"message_stop"}\n\n', False),
        (b'data: {"delta":{"type":"message_stop"}}\n\n', False),
        (b'data: "message_stop"\n\n', False),
        (b'data: {"type":["message_stop"]}\n\n', False),
        (b'data: {"type":"message_stop"\n\n', False),
    ],
)
def test_the_last_word_of_a_stream_is_known_in_every_dialect(told: bytes, done: bool) -> None:
    assert tap(b"data: {}\n\n" + told).done() is done
