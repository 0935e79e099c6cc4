"""Asking an API for lists, and listening to one for news: bounded, and no secret in any error."""

import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import attrs
import httpx
import orjson
import trio

BODY_MAX_BYTES = 16 << 20
LINE_MAX_BYTES = 4 << 20
STEP_BYTES = 64 << 10
ASK_S = 10.0
"""Limit of one question, from the name lookup to the last byte."""

Take = Callable[[bytes], bool]


class NoAnswer(Exception):
    """The API did not answer as it should; the text says how, without any secret."""


@attrs.frozen
class Api:
    """``token`` is asked before each request, as tokens change; it may block. None: send none."""

    url: str
    client: httpx.AsyncClient
    token: Callable[[], str | None]

    async def get(self, path: str, **params: str | int) -> tuple[int, object]:
        """Status and JSON of an answer; None for what is no JSON. Raises NoAnswer."""
        body = bytearray()

        def keep(piece: bytes) -> bool:
            body.extend(piece)
            return len(body) > BODY_MAX_BYTES

        with trio.move_on_after(ASK_S) as limit:
            status = await self._ask(path, params, keep)
        if limit.cancelled_caught:
            raise NoAnswer(f"{self.url} did not answer within {ASK_S:g} s")
        if len(body) > BODY_MAX_BYTES:
            raise NoAnswer(f"{self.url} sent more than {BODY_MAX_BYTES} bytes")
        try:
            return status, await trio.to_thread.run_sync(orjson.loads, bytes(body))
        except orjson.JSONDecodeError:
            return status, None

    async def listen(self, path: str, take: Take, *, quiet_s: float, **params: str | int) -> int:
        """Hand each line of a stream that never ends to ``take`` until that is true; the status.

        It also ends when nothing came for ``quiet_s``, or when the other side ends it. Raises
        NoAnswer.
        """
        line = bytearray()
        with trio.CancelScope(deadline=trio.current_time() + quiet_s) as quiet:

            def split(piece: bytes) -> bool:
                quiet.deadline = trio.current_time() + quiet_s
                for part in piece.splitlines(keepends=True):
                    line.extend(part)
                    if part.endswith(b"\n"):
                        whole = bytes(line).strip()
                        line.clear()
                        if whole and take(whole):
                            return True
                return len(line) > LINE_MAX_BYTES

            return await self._ask(path, params, split)
        return 200

    async def _ask(self, path: str, params: Mapping[str, str | int], take: Take) -> int:
        """GET; pieces of a 200 go to ``take`` until that is true."""
        token = await trio.to_thread.run_sync(self.token)
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        status = 200
        try:
            # A stream is left by cancelling the read: leaving the loop would abandon generators.
            with trio.CancelScope() as reading:
                async with self.client.stream(
                    "GET", self.url + path, params=params, headers=headers
                ) as response:
                    status = response.status_code
                    async for chunk in response.aiter_raw(STEP_BYTES if status != 200 else None):
                        if status != 200 or take(chunk):
                            reading.cancel()
                        await trio.lowlevel.cancel_shielded_checkpoint()
        except httpx.HTTPError as error:
            raise NoAnswer(f"{self.url}: {_told(error)}") from None
        return status


def _told(error: httpx.HTTPError) -> str:
    """The kind of an error; its text may quote a header."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not one that may be believed: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed ({cause.reason})"
        if isinstance(cause, OSError) and cause.errno and cause.strerror:
            known = cause.errno > 0  # negative ones are those of a name lookup
            return (os.strerror(cause.errno) if known else cause.strerror).lower()
        if isinstance(cause, BaseExceptionGroup):  # one attempt for each address of a name
            cause = cause.exceptions[0]
        else:
            cause = cause.__cause__ or cause.__context__
    return type(error).__name__


@asynccontextmanager
async def api(
    url: str, token: Callable[[], str | None], ca_file: str | None = None
) -> AsyncIterator[Api]:
    """An API at ``url``, whose certificate the system's authorities or ``ca_file`` vouch for.

    No proxy of the environment, no redirects: a token goes to nobody else.
    """
    tls = await trio.to_thread.run_sync(_tls, ca_file)
    async with httpx.AsyncClient(
        verify=tls,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=ASK_S),
        headers={"accept": "application/json", "accept-encoding": "identity"},
    ) as client:
        yield Api(url.rstrip("/"), client, token)


def _tls(ca_file: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file)
