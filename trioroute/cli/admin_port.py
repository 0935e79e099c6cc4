"""What the commands that ask a running router's admin port share: where it is, who asks, errors."""

import os
import ssl
from collections.abc import Callable
from typing import Any, TypeVar

import click

from trioroute.settings.sources import ADMIN_TOKEN_VARIABLE

ADMIN = "http://127.0.0.1:9090"
TIMEOUT_S = 10.0
UNAUTHORIZED = 401

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
    return (
        f"no answer of an admin port at {admin}: {error}; start the router, or name its admin port "
        "with --admin"
    )


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
