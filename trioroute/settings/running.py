"""Which keys a running router can change, and which have to wait for its next start."""

from operator import attrgetter
from typing import Any

import attrs

from trioroute.events.sections import InForce
from trioroute.settings.known import KNOWN_KEYS

RELOADED_SECTIONS = frozenset(
    {
        "retries",
        "policy",
        "wlc",
        "pins",
        "scrape",
        "eject",
        "probing",
        "admission",
        "models",
        "replica",
        "discovery",
    }
)
RELOADED_KEYS = frozenset(
    {
        "server.api_keys",
        "server.api_keys_file",
        "server.cors_origins",
        "server.forward_client_auth",
        "server.heartbeat",
        "server.reveal",
        "server.graceful_timeout",
        "server.settle",
        "server.tls_cert",
        "server.tls_key",
        "timeouts.connect",
        "timeouts.first_byte",
        "timeouts.idle",
        "timeouts.total",
        "log.gate",
        "log.gate_wait",
        "log.on_failure",
        "log.segment_bytes",
        "log.segment_age",
        "log.retain_age",
        "log.retain_bytes",
        "log.archive",
    }
)
"""What is looked at each time it is needed. The rest is built into sockets, buffers and files."""

TLS_KEYS = ("server.tls_cert", "server.tls_key")
"""Their files may be others; whether a port speaks TLS is decided at the start."""


def is_reloaded(key: str) -> bool:
    """Whether a reload changes ``key`` while the router runs."""
    return key.partition(".")[0] in RELOADED_SECTIONS or key in RELOADED_KEYS


def running(old: InForce, new: InForce) -> tuple[InForce, tuple[str, ...]]:
    """``new`` as far as a running router can take it, and the keys that need a restart."""
    waiting: list[str] = []
    for key, info in KNOWN_KEYS.items():
        if not info.field or (is_reloaded(key) and key not in TLS_KEYS):
            continue
        get = attrgetter(info.field)
        was, is_now = get(old), get(new)
        if key in TLS_KEYS:
            was, is_now = bool(was), bool(is_now)
        if was != is_now:
            waiting.append(key)
            new = _with(new, info.field.split("."), get(old))
    return new, tuple(waiting)


def _with(part: Any, path: list[str], value: object) -> Any:  # noqa: ANN401 - any section
    """A copy of a tree of sections with one field changed."""
    name, *below = path
    return attrs.evolve(
        part, **{name: _with(getattr(part, name), below, value) if below else value}
    )
