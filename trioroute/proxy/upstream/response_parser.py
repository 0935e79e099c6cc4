"""Reads one HTTP/1.1 response from a replica, as it comes.

httptools (llhttp) does the framing; what it does not know is added here: HEAD, bodies that end
with the connection, informational responses, limits, and what "complete" means.
"""

import httptools

from trioroute.proxy.upstream.error import UpstreamError

HEAD_BYTES = 64 * 1024
HEADER_COUNT = 256
SILENT_BYTES = 64 * 1024
"""Bytes of chunk framing or trailers without one byte of body between them."""
MAX_INFORMATIONAL = 8

RECEIVE_BYTES = 64 * 1024
FEW_BYTES = 8 * 1024
"""Taken in one step of the event loop: mostly the first; the second while the body comes in chunks
of a few bytes, each of which costs as much as a large one, and before that is known."""

CROWD = 256
"""Chunks of one receive after which the next is to be a small one."""


class ResponseParser:
    """The state of one response. Feed it; look at the attributes."""

    def __init__(self, method: str, max_head_bytes: int = HEAD_BYTES) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        """Names in lower case."""
        self.parts: list[bytes] = []
        """Body bytes not yet taken."""
        self.has_head = False
        """The head of the final response is read."""
        self.complete = False
        """The end of the body is read."""
        self.until_close = False
        """Only the end of the connection ends this body."""
        self.spoiled = False
        """Set by the owner when the connection must not carry another request."""
        self.wanted_bytes = FEW_BYTES
        """What the next receive is to bring at most."""
        self.seen_bytes = False
        """At least one byte of a response came, informational ones included."""
        self._method = method
        self._max_head_bytes = max_head_bytes
        self._head_bytes = 0
        self._header_bytes = 0
        self._silent_bytes = 0
        self._informational = 0
        self._keep_alive = False
        self._excess = False
        self._framed = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Read on. Raises UpstreamError("protocol") for what is no response within the limits."""
        self.seen_bytes = True
        if not self.has_head:
            self._head_bytes += len(data)
        before = len(self.parts)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise UpstreamError(
                "protocol", "the replica switched protocols unasked", sent=True
            ) from None
        except httptools.HttpParserError as error:
            if not self.complete:
                raise self._broken(str(error.__context__ or error)) from error
            self._excess = True  # bytes after the end: the response stands, the connection goes
        if not self.has_head and self._head_bytes > self._max_head_bytes:
            raise self._broken(f"the response head is over {self._max_head_bytes} bytes")
        if self.has_head and not self.complete:
            chunks = len(self.parts) - before
            self.wanted_bytes = FEW_BYTES if chunks > CROWD else RECEIVE_BYTES
            if chunks:
                self._silent_bytes = 0
            else:
                self._bound_framing(len(data))

    def take_in(self, data: bytes) -> None:
        """What one receive gave; empty: the replica closed its side. Raises as both."""
        if data:
            self.feed(data)
        else:
            self.end()

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request."""
        clean = self.complete and not self._excess and not self.until_close
        return clean and self._keep_alive and not self.spoiled

    def end(self) -> None:
        """The replica closed its side. Raises UpstreamError("fin") unless that ends the body."""
        if self.has_head and self.until_close:
            self.complete = True
        if not self.complete:
            where = "the end of the body" if self.has_head else "the response head"
            raise UpstreamError("fin", f"the replica closed before {where}", sent=True)

    def take(self) -> bytes:
        """The body bytes read since the last call."""
        parts = self.parts
        if len(parts) == 1:
            return parts.pop()
        body = b"".join(parts)
        parts.clear()
        return body

    # What httptools calls.

    def on_message_begin(self) -> None:
        """A message begins: the first, the one after an informational one, or excess bytes."""
        if self.complete:
            self._excess = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is dropped."""
        if self.has_head:
            return
        self.headers.append((name.lower(), value))
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > self._max_head_bytes:
            raise ValueError(f"the head is over {self._max_head_bytes} bytes")
        if len(self.headers) > HEADER_COUNT:
            raise ValueError(f"over {HEADER_COUNT} response headers")

    def on_headers_complete(self) -> None:
        """The head is read: decide what ends the body."""
        if self.complete:
            return
        status = self._parser.get_status_code()
        if status < 100:
            raise ValueError(f"the status {status:03} is none (RFC 9110 section 15)")
        if status < 200:
            if status == 101:
                return
            self._informational += 1
            if self._informational > MAX_INFORMATIONAL:
                raise ValueError("too many informational responses")
            self.headers.clear()
            return
        self.status = status
        self.has_head = True
        self._keep_alive = self._parser.should_keep_alive()
        if self._method == "HEAD" or status in (204, 304):
            self.complete = True
            return
        codings: list[bytes] = []
        for name, value in self.headers:
            if name == b"content-length":
                self._framed = True
            elif name == b"transfer-encoding":
                codings += value.lower().split(b",")
        if codings:
            _check_codings(codings)
            self._framed = True
        self.until_close = not self._framed

    def on_body(self, body: bytes) -> None:
        """Bytes of the body; after the end (a body under HEAD) they are excess."""
        if self.complete:
            self._excess = True
        else:
            self.parts.append(body)

    def on_message_complete(self) -> None:
        """The end of a message; an informational one is not the end."""
        if self.has_head:
            self.complete = True

    def _bound_framing(self, size: int) -> None:
        self._silent_bytes += size
        if self._silent_bytes > SILENT_BYTES:
            raise self._broken(f"over {SILENT_BYTES} bytes of chunk framing without a body byte")

    def _broken(self, what: str) -> UpstreamError:
        return UpstreamError("protocol", f"not a valid HTTP/1.1 response: {what}", sent=True)


def _check_codings(codings: list[bytes]) -> None:
    """Raises ValueError for any transfer coding but chunked.

    RFC 9112 7.4: without a TE header, which this router never sends, a replica may use chunked
    only. Passed on as plain, a body under ``gzip, chunked`` would be noise to the client. And
    ``identity`` of RFC 2616 is none any more: some read a length beside it, others to the end.
    """
    named = [coding for coding in (coding.strip() for coding in codings) if coding]
    if named != [b"chunked"]:
        told = b", ".join(named).decode("latin-1")[:100]
        raise ValueError(f"the transfer coding {told!r} was not asked for; only chunked may be")
