"""What the commands that ask a running router's admin port share: where it is, who asks, errors."""

import os
import ssl
from collections.abc import Callable
from typing import Any, TypeVar

import click
import httpx

from trioroute.settings.sources import ADMIN_TOKEN_VARIABLE

ADMIN = "http://127.0.0.1:9090"
TIMEOUT_S = 10.0
UNAUTHORIZED = 401

_BROKEN = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
"""Somebody is there, and it ends the connection or speaks something else than HTTP."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def admin_options(command: _Command) -> _Command:
    """``--admin``, ``--token-env`` and ``--ca-file``."""
    ca_file = click.option(
        "--ca-file",
        type=click.Path(exists=True, dir_okay=False),
        help="Certificates to trust instead of the system's, where the admin port speaks TLS.",
    )
    token_env = click.option(
        "--token-env",
        default=ADMIN_TOKEN_VARIABLE,
        show_default=True,
        help="Variable that holds the admin token.",
    )
    admin = click.option(
        "--admin", default=ADMIN, show_default=True, help="Admin port of the router."
    )
    return admin(token_env(ca_file(command)))


def asking(admin: str, token_env: str, ca_file: str | None = None) -> dict[str, Any]:
    """How an httpx client asks there, with the token if the variable holds one."""
    token = os.environ.get(token_env, "")
    return {
        "base_url": admin.rstrip("/"),
        "headers": {"authorization": f"Bearer {token}"} if token else {},
        "timeout": TIMEOUT_S,
        "trust_env": False,
        "verify": _trusting(ca_file),
    }


def _trusting(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise click.UsageError(f"--ca-file {ca_file} holds no certificate in PEM form") from None


def no_answer(admin: str, error: Exception) -> str:
    """What to say of ``error``, which may have no words of its own, and what to do about it."""
    words = _words(error)
    if _is_of_tls(error):
        if "CERTIFICATE_VERIFY_FAILED" in words:
            return (
                f"the certificate of the admin port at {admin} is not trusted: {words}; name the "
                "certificate of its authority, or its own, with --ca-file"
            )
        return f"no TLS with {admin}: {words}; if its admin port speaks none, write http://"
    if admin.startswith("http:") and isinstance(error, _BROKEN):
        return (
            f"{admin} answered no HTTP: {words}; if its admin port speaks TLS, write https:// "
            "and --ca-file with the certificate to trust"
        )
    return (
        f"no answer of an admin port at {admin}: {words}; start the router, or name its admin port "
        "with --admin"
    )


def _words(error: BaseException) -> str:
    """An error that wraps one without words says what that one says."""
    seen: BaseException | None = error
    while seen is not None:
        if str(seen):
            return str(seen)
        seen = seen.__cause__ or seen.__context__
    return type(error).__name__


def _is_of_tls(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError) or "SSL:" in str(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def about_token(token_env: str) -> str:
    """What to do where the admin port said 401."""
    held = "holds another one" if os.environ.get(token_env) else "is empty"
    return (
        f"; {token_env} {held}: put the router's admin token there, or name the variable that has"
        " it with --token-env"
    )


def refusal(told: object, status: int) -> str:
    """The message of an error in OpenAI's shape."""
    error = told.get("error") if isinstance(told, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return str(message) if message else f"status {status}"
