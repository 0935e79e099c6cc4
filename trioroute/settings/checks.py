"""What no single key can tell: settings that contradict each other, files that are not there."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from trioroute.events.sections import InForce
from trioroute.quantities import BadValue, duration_text
from trioroute.settings.addresses import is_loopback, parse_address
from trioroute.settings.certificate import BadCertificate, read_certificate

TOKEN_CHARS_MIN = 16
GUARDS = frozenset(
    {"server.admin_token_env", "server.api_keys_file", "server.tls_cert", "server.tls_key"}
)
"""Keys that keep strangers out. In the file ``""`` turns one off; an empty variable is a slip."""


@attrs.frozen
class Clash:
    """``keys`` do not go together; the one that was set last is told as the place."""

    keys: tuple[str, ...]
    message: str
    remedy: str


def clashes(in_force: InForce) -> Iterator[Clash]:
    """Contradictions within the settings, wherever they are read."""
    eject, server = in_force.eject, in_force.server
    if eject.cooldown_ms > eject.cooldown_max_ms:
        yield Clash(
            ("eject.cooldown", "eject.cooldown_max"),
            f"eject.cooldown ({duration_text(eject.cooldown_ms)}) is longer than "
            f"eject.cooldown_max ({duration_text(eject.cooldown_max_ms)})",
            "lower the one or raise the other",
        )
    listen, admin = parse_address(server.listen)[1], parse_address(server.admin)[1]
    if listen == admin != 0:
        yield Clash(
            ("server.listen", "server.admin"),
            f"server.listen and server.admin have the same port {listen}",
            "give each its own port",
        )
    host = parse_address(server.admin)[0]
    if not server.admin_token_env and not is_loopback(host):
        yield Clash(
            ("server.admin", "server.admin_token_env"),
            f"server.admin ({server.admin}) is not on loopback and there is no admin token",
            "name a variable that holds one in server.admin_token_env, or stay on 127.0.0.1",
        )
    if bool(server.tls_cert) != bool(server.tls_key):
        given, missing = ("tls_cert", "tls_key") if server.tls_cert else ("tls_key", "tls_cert")
        yield Clash(
            (f"server.{given}", f"server.{missing}"),
            f"server.{given} is set without server.{missing}",
            "set both or none",
        )
    if server.admin_tls and not (server.tls_cert or server.tls_key):
        yield Clash(
            ("server.admin_tls", "server.tls_cert"),
            "server.admin_tls is on, and there is no certificate",
            "set server.tls_cert and server.tls_key, or leave it off",
        )


def check_not_empty(value: object) -> None:
    """A guard that a variable or an option gives over that of the file. Raises BadValue for an
    empty one: ``$KEYS`` that was never set would else open what the file keeps shut."""
    if isinstance(value, str) and not value.strip():
        raise BadValue(
            "is empty, and would take away the file's, which keeps strangers out",
            "unset it, give it its value, or take the key out of the file",
        )


def weak_token(in_force: InForce, environ: Mapping[str, str]) -> Iterator[Clash]:
    """An admin token that is not there, or can be guessed."""
    name = in_force.server.admin_token_env
    token = environ.get(name, "")
    plain = token.strip() if token.isascii() and token.isprintable() else ""
    if not name or (len(plain) >= TOKEN_CHARS_MIN and plain == token):
        return
    if not token:
        why = "is empty" if name in environ else "is not set"
    elif len(plain) >= TOKEN_CHARS_MIN:
        why = "has blanks around its text, which no client sends"
    else:
        why = f"has fewer than {TOKEN_CHARS_MIN} plain characters"
    yield Clash(
        ("server.admin_token_env",),
        f"names a variable that {why}",
        "export a long random text, as `trioroute key new admin` makes one",
    )


def unreadable_files(in_force: InForce) -> Iterator[Clash]:
    """Files that settings name and this process cannot use. Only for a router about to start."""
    server = in_force.server
    if server.tls_cert and server.tls_key:
        try:
            read_certificate(server.tls_cert, server.tls_key)
        except BadCertificate as bad:
            yield Clash((bad.key,), bad.message, bad.remedy)
    if server.api_keys_file:
        try:
            with Path(server.api_keys_file).open("rb") as stream:
                stream.read(1)
        except OSError as error:
            why = error.strerror or type(error).__name__
            if not Path(server.api_keys_file).is_absolute():
                why += f" (looked for in {Path.cwd()}, where the router runs)"
            yield Clash(("server.api_keys_file",), f"cannot be read: {why}", "name a readable file")
