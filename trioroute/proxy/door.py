"""Who gets in: the API key is asked for before a body is read (HTTP.md)."""

from contextlib import suppress
from urllib.parse import unquote

import attrs

from eventlog import LogError
from trioroute.policy.commands import Refuse
from trioroute.proxy.cors import is_preflight, readers_of_refusals
from trioroute.proxy.desk import Desk
from trioroute.proxy.errors import RouterError, error_body
from trioroute.proxy.headers import RawHeaders
from trioroute.proxy.keyring import stranger
from trioroute.proxy.paths import route
from trioroute.proxy.reply import named
from trioroute.proxy.serving.refusal import MAX_MESSAGE, Refusal

HEALTH_PATHS = ("/health", "/ping")
CHALLENGE = (b"www-authenticate", b'Bearer realm="trioroute"')
LOGGED_A_SECOND = 10


def refusal_body(path: bytes, refusal: Refusal) -> bytes:
    """A refusal of the server in Anthropic's shape where that is the path's; else empty."""
    if not route("POST", unquote(path.decode("latin-1"))).anthropic:
        return b""
    return error_body(refusal.code, refusal.message[:MAX_MESSAGE], refusal.status, anthropic=True)


@attrs.define
class Door:
    """Turns strangers away, and logs at most ten of them a second: they must not fill a disk."""

    desk: Desk
    _second: int = 0
    _logged: int = 0

    def __call__(self, path: bytes, headers: RawHeaders) -> Refusal | None:
        """What the server answers before it reads a body; None: come in."""
        if not self.desk.keys or path.decode("latin-1") in HEALTH_PATHS:
            return None
        if self.desk.keys.whose(headers) is not None:
            return None
        origins = self.desk.settings.server.cors_origins
        if origins and is_preflight("OPTIONS", headers):
            return None  # has no credentials by design; the application asks for the method too
        request_id = self.desk.request_id(headers)
        error = self.turn_away(headers, request_id)
        told = error.body(anthropic=route("POST", path.decode("latin-1")).anthropic)
        extra = (CHALLENGE, named(request_id))
        return Refusal(error.status, error.code, error.message, extra=extra, told=told)

    def refusal_headers(self, asked: RawHeaders) -> RawHeaders:
        """What goes with every refusal of the server: whose answer it is, and who may read it."""
        origins = self.desk.settings.server.cors_origins
        return [named(self.desk.request_id(asked)), *readers_of_refusals(origins, asked)]

    def turn_away(self, headers: RawHeaders, request_id: str) -> RouterError:
        """Note it in the log."""
        desk = self.desk
        now_ms = desk.now_ms()
        if now_ms // 1000 != self._second:
            self._second, self._logged = now_ms // 1000, 0
        self._logged += 1
        if self._logged <= LOGGED_A_SECOND:
            with suppress(LogError):
                desk.router.handle(
                    Refuse(at_ms=now_ms, request_id=request_id, code="invalid_api_key")
                )
        return stranger(headers)
