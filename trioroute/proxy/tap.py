"""Reading a response on the side: usage, response id, how it ended. The bytes go on untouched.

Only the first and the last kilobytes are kept. What cannot be found stays unknown.
"""

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice

import orjson

from trioroute.proxy.errors import ANTHROPIC_STATUS

TAIL_BYTES = 16 * 1024
HEAD_BYTES = 16 * 1024
USAGE_BYTES = 4096
USAGES_MAX = 16
"""Looked at, from the end: what a client sent may be echoed, with such fields of its own."""

USAGE_TOKENS_MAX = 200
"""Braces and texts of one: engines tell a dozen numbers, Anthropic's some more."""

EVENTS_MAX = 256
"""Looked at for an error: with one too many the answer is taken for a whole one."""

EVENT_VALUES_MAX = 4000
"""Arrays and objects of an event that is parsed: more take milliseconds."""

_ABORT = re.compile(rb'"finish_reason"\s*:\s*"abort"')
_TOKEN = re.compile(rb'[{}]|"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A text that does not end is one too, so that no byte is looked at twice."""

_USAGE = re.compile(rb'"usage"\s*:\s*(?=\{)')
_RESPONSE_ID = re.compile(rb'"id"\s*:\s*"(resp_[A-Za-z0-9_-]{1,200})"')
_DEEPER = {b"{": 1, b"}": -1}
_BORDER = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_BORDERS = (b"\r\n\r\n", b"\n\n", b"\r\r")
_BLANK_LINE_AT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)\Z")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_FIELD = re.compile(rb"(?:^|[\r\n])(?:data|event)")
_BEGINNING = b'"message_start"'
"""Anthropic's first event: its count of output tokens is not one of what came."""

LAST_WORDS = frozenset((b"message_stop", b"response.completed", b"response.incomplete"))
"""Types of the event that ends a stream of Anthropic's, and of the Responses API."""

PROMPT = ("prompt_tokens", "input_tokens")
COMPLETION = ("completion_tokens", "output_tokens")


class Tap:
    """Feed it what was relayed; ask it when the response is over."""

    def __init__(self) -> None:
        self._head = b""
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.bytes = 0

    def feed(self, chunk: bytes) -> None:
        size = len(chunk)
        if self.bytes < HEAD_BYTES:
            self._head += chunk[: HEAD_BYTES - self.bytes]
        self.bytes += size
        tail = self._tail
        tail.append(chunk)
        self._tail_bytes += size
        while len(tail) > 1 and self._tail_bytes - len(tail[0]) >= TAIL_BYTES:
            self._tail_bytes -= len(tail.popleft())

    def tail(self) -> bytes:
        tail = self._tail
        if len(tail) == 1:
            return tail[0][-TAIL_BYTES:]
        return b"".join(tail)[-TAIL_BYTES:]

    def usage(self) -> tuple[int | None, int | None]:
        """(prompt tokens, completion tokens) as told last; None where unknown."""
        prompt: int | None = None
        completion: int | None = None
        for found, begins in self._usages():
            if prompt is None:
                prompt = _count(found, PROMPT)
            if completion is None and not begins:
                completion = _count(found, COMPLETION)
            if prompt is not None and completion is not None:
                break
        return prompt, completion

    def _usages(self) -> Iterator[tuple[dict[str, object], bool]]:
        """Usage objects, the last one first; True with that of Anthropic's first event."""
        texts = [self.tail()] if self.bytes <= TAIL_BYTES else [self.tail(), self._head]
        for text in texts:
            at = len(text)
            left = USAGES_MAX
            while left and (at := text.rfind(b'"usage"', 0, at)) >= 0:
                found = _USAGE.match(text, at)
                if found is None:
                    continue
                left -= 1
                told = _object(text[found.end() : found.end() + USAGE_BYTES])
                if told is not None:
                    line = text.rfind(b"\n", 0, at) + 1
                    yield told, text.find(_BEGINNING, line, at) >= 0

    def aborted(self) -> bool:
        """RULES 6.12: the engine gave up by itself."""
        return aborted(self.tail())

    def error_at_end(self) -> int | None:
        """The code of the error that an event stream ends with; a ``[DONE]`` may follow it."""
        return _error_at_end(self.tail())

    def at_event_border(self) -> bool:
        return self.tail().endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))

    def done(self) -> bool:
        """Whether an event stream said its last word: ``[DONE]``, or one of ``LAST_WORDS``.

        Of an event over TAIL_BYTES the beginning is not here: it counts as none.
        """
        return self.at_event_border() and _is_last_word(_data(_BORDER.split(self.tail())[-2]))

    def has_event(self) -> bool:
        """Whether an event stream held more than comments and blank lines."""
        return self.bytes > HEAD_BYTES or _FIELD.search(self._head) is not None

    def response_id(self) -> str | None:
        """The id of a response of the Responses API (RULES 5.11)."""
        found = _RESPONSE_ID.search(self._head)
        return found.group(1).decode("ascii") if found else None


def cut_in_event(text: bytes) -> bool:
    """Whether an event stream that ends so stops in the middle of an event.

    A last ``[DONE]`` or error says enough without its blank line.
    """
    text = text[-TAIL_BYTES:]
    said = text.rstrip()
    if not said or said.endswith(b"[DONE]") or _BLANK_LINE_AT_END.search(text, len(text) - 4):
        return False
    return _error_at_end(text) is None


def _error_at_end(text: bytes) -> int | None:
    for block in reversed(_BORDER.split(text)[-EVENTS_MAX:]):
        data = _data(block)
        if data and data != b"[DONE]":
            return error_code(data)
    return None


def aborted(text: bytes) -> bool:
    """Whether a response says that the engine ended it; unescaped, so no answer can fake it."""
    return b'"abort"' in text and _ABORT.search(text) is not None


def error_in_events(text: bytes) -> int | None:
    """The code of the first ``data: {"error": {...}}`` among whole events, None without one.

    vLLM answers an overloaded or dying stream with status 200 and such an event (RULES 6.12).
    """
    end = 0
    for _ in range(EVENTS_MAX):
        at = text.find(b'"error"', end)
        if at < 0:
            break
        # One of these ends the event before; its bytes are a blank line to the next.
        begin = max(end, *(text.rfind(border, end, at) for border in _BORDERS))
        border = _BORDER.search(text, at)
        end = len(text) if border is None else border.end()
        code = error_code(_data(text[begin:end]))
        if code is not None:
            return code
    return None


def error_code(data: bytes) -> int | None:
    """The HTTP status an event's data stands for if it is an error, 500 where it names none."""
    if b'"error"' not in data or _is_costly(data):
        return None
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(event, dict):
        return None
    error = event.get("error")
    if not error:
        return 500 if event.get("type") == "error" else None
    if not isinstance(error, dict):
        return 500
    code = error.get("code")
    if isinstance(code, int) and 400 <= code <= 599:
        return code
    kind = error.get("type")
    known = event.get("type") == "error" and isinstance(kind, str)
    return ANTHROPIC_STATUS.get(str(kind), 500) if known else 500


def _is_last_word(data: bytes) -> bool:
    if data == b"[DONE]":
        return True
    if not any(word in data for word in LAST_WORDS) or _is_costly(data):
        return False
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    told = event.get("type") if isinstance(event, dict) else None
    return isinstance(told, str) and told.encode() in LAST_WORDS


def _is_costly(data: bytes) -> bool:
    return data.count(b"{") + data.count(b"[") > EVENT_VALUES_MAX


def _data(block: bytes) -> bytes:
    """The data of one event: its ``data:`` lines, joined."""
    lines = _LINE_END.split(block)
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))


def _object(text: bytes) -> dict[str, object] | None:
    """The JSON object that ``text`` begins with."""
    depth = 0
    for token in islice(_TOKEN.finditer(text), USAGE_TOKENS_MAX):
        depth += _DEEPER.get(token[0], 0)
        if depth == 0:
            try:
                told = orjson.loads(text[: token.end()])
            except orjson.JSONDecodeError:
                return None
            return told if isinstance(told, dict) else None
    return None


def _count(usage: dict[str, object], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = usage.get(name)
        if type(value) is int and 0 <= value < 10**12:
            return value
    return None
