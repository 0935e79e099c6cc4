"""What no single key can tell: settings that contradict each other, files that are not there."""

from collections.abc import Iterator
from pathlib import Path

import attrs

from trioroute.events.sections import InForce
from trioroute.settings.addresses import parse_address
from trioroute.settings.quantities import duration_text


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
    if bool(server.tls_cert) != bool(server.tls_key):
        given, missing = ("tls_cert", "tls_key") if server.tls_cert else ("tls_key", "tls_cert")
        yield Clash(
            (f"server.{given}", f"server.{missing}"),
            f"server.{given} is set without server.{missing}",
            "set both or none",
        )


def unreadable_files(in_force: InForce) -> Iterator[Clash]:
    """Files that settings name and this process cannot read. Only for a router about to start."""
    for name in ("tls_cert", "tls_key"):
        path = getattr(in_force.server, name)
        if not path:
            continue
        try:
            with Path(path).open("rb") as stream:
                stream.read(1)
        except OSError as error:
            why = error.strerror or type(error).__name__
            yield Clash((f"server.{name}",), f"cannot be read: {why}", "name a readable PEM file")
