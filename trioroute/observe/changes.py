"""What the admin port can have changed: the fleet, and the configuration."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import attrs

WHY_MAX = 200
"""Characters of a reason: it goes into the log as it is."""


class NoSuchReplica(Exception):
    """The fleet has no replica of this name."""


class ReplicaExists(Exception):
    """The name or the address is taken; the text says by whom and what to do."""


class BadReplica(Exception):
    """The description of a replica cannot be used; the text says why."""


@attrs.frozen
class Reloaded:
    """``problems`` are those of a file that was ``rejected``: then nothing changed.

    ``restart`` are changed keys that wait for the next start, ``changed`` what became another now,
    in words.
    """

    result: Literal["applied", "unchanged", "rejected"]
    digest: str = ""
    restart: tuple[str, ...] = ()
    problems: tuple[Mapping[str, str], ...] = ()
    changed: tuple[str, ...] = ()


class Changes(Protocol):
    """Calls are plain and quick but ``reload``; all may raise a LogError: then nothing changed.

    ``why`` is the reason that somebody gave, for the log.
    """

    def drain(self, name: str, on: bool, why: str) -> None:
        """Raises NoSuchReplica."""
        ...

    def eject(self, name: str, why: str) -> None:
        """From LIVE or PROBING; elsewhere nothing happens. Raises NoSuchReplica."""
        ...

    def add(self, told: Mapping[str, Any], why: str) -> str:
        """Its name. The same replica twice is no error. Raises ReplicaExists, BadReplica."""
        ...

    def remove(self, name: str, why: str, *, now: bool) -> bool:
        """Drain it, and have it leave when nothing runs there; ``now``: leave at once.

        Whether the configuration file still names it. Raises NoSuchReplica.
        """
        ...

    async def reload(self, why: str) -> Reloaded:
        """Read the configuration file again; all of it applies, or nothing."""
        ...

    @property
    def restart_needed(self) -> tuple[str, ...]:
        """Keys of the file that wait for the next start."""
        ...
