"""Reading a response on the side: usage, response id, how it ended. The bytes go on untouched.

Only the first and the last kilobytes are kept. What cannot be found stays unknown.
"""

import re
from collections import deque

import orjson

TAIL_BYTES = 16 * 1024
_ABORT = re.compile(rb'"finish_reason"\s*:\s*"abort"')
_ERROR = re.compile(rb'^data:\s*\{\s*"error"', re.MULTILINE)
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_RESPONSE_ID = re.compile(rb'"id"\s*:\s*"(resp_[A-Za-z0-9_-]{1,200})"')
_COUNTS = {
    "prompt": (b"prompt_tokens", b"input_tokens"),
    "completion": (b"completion_tokens", b"output_tokens"),
}
_NUMBER = {
    name: re.compile(rb'"%b"\s*:\s*(\d{1,12})\b' % name)
    for names in _COUNTS.values()
    for name in names
}


class Tap:
    """Feed it what was relayed; ask it when the response is over."""

    def __init__(self) -> None:
        self._head = b""
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.bytes = 0

    def feed(self, chunk: bytes) -> None:
        if not self.bytes:
            self._head = chunk[:TAIL_BYTES]
        size = len(chunk)
        self.bytes += size
        tail = self._tail
        tail.append(chunk)
        self._tail_bytes += size
        while len(tail) > 1 and self._tail_bytes - len(tail[0]) >= TAIL_BYTES:
            self._tail_bytes -= len(tail.popleft())

    def tail(self) -> bytes:
        return b"".join(self._tail)[-TAIL_BYTES:]

    def usage(self) -> tuple[int | None, int | None]:
        """(prompt tokens, completion tokens) of the last usage object; None where unknown."""
        tail = self.tail()
        last = None
        for found in _USAGE.finditer(tail):
            last = found
        if last is None:
            return None, None
        text = tail[last.start() :]
        prompt, completion = (_first_number(text, names) for names in _COUNTS.values())
        return prompt, completion

    def aborted(self) -> bool:
        """RULES 6.12: the engine gave up by itself."""
        return aborted(self.tail())

    def ends_with_error(self) -> bool:
        """Whether the last event already tells an error."""
        return _ERROR.search(self.tail().rstrip().rpartition(b"\n\n")[2]) is not None

    def at_event_border(self) -> bool:
        tail = self.tail()
        return tail.endswith((b"\n\n", b"\r\n\r\n"))

    def response_id(self) -> str | None:
        """The id of a response of the Responses API (RULES 5.11)."""
        found = _RESPONSE_ID.search(self._head)
        return found.group(1).decode("ascii") if found else None


def aborted(text: bytes) -> bool:
    """Whether a response says that the engine ended it; unescaped, so no answer can fake it."""
    return _ABORT.search(text) is not None


def _first_number(text: bytes, names: tuple[bytes, ...]) -> int | None:
    for name in names:
        found = _NUMBER[name].search(text)
        if found is not None:
            return int(found.group(1))
    return None


def error_in_event(block: bytes) -> int | None:
    """The code of ``data: {"error": {...}}`` as a stream's first event, None for any other.

    vLLM answers an overloaded or dying stream with status 200 and such an event (RULES 6.12).
    """
    if _ERROR.search(block) is None:
        return None
    for line in block.splitlines():
        if not line.startswith(b"data:"):
            continue
        try:
            event = orjson.loads(line[5:])
        except orjson.JSONDecodeError:
            return None
        error = event.get("error") if isinstance(event, dict) else None
        code = error.get("code") if isinstance(error, dict) else None
        return code if isinstance(code, int) and 400 <= code <= 599 else 500
    return None
