"""What happened to the router itself."""

from typing import Any

import attrs

from trioroute.events.flat import Flat, Int
from trioroute.events.sections import InForce
from trioroute.events.words import ChangedBy


class Started(Flat, frozen=True, kw_only=True):
    """The router opened its log and is about to listen. Time may step back here and only here.

    ``behind_ms`` is by how much it does: what is left of cooldowns is counted on from here.
    """

    router: str
    release: str
    rules: Int
    behind_ms: Int = 0


@attrs.frozen(kw_only=True, slots=False)
class Configured:
    """These settings are in force from here on; secrets are not among them.

    ``digest`` names the file they came from: the first 16 digits of its SHA-256, empty without one.
    """

    settings: InForce
    digest: str = ""
    by: ChangedBy = "start"
    why: str = ""


class Orphaned(Flat, frozen=True, kw_only=True):
    """Dispatches of an earlier run that have no end in the log: the router died under them.

    ``ends_lost``: it ended in order, but could not write its last events (``Gap``), and the ends of
    these are among them; their clients may have got all of their answers.
    """

    dispatches: tuple[Int, ...]
    ends_lost: bool = False


class Stopped(Flat, frozen=True, kw_only=True):
    """The router ended in order; nothing follows but a ``Started``.

    ``head`` is ``SEQ:CHAIN`` of the last row that was committed before; None without a chain.
    """

    cause: str
    head: str | None = None


class Checked(Flat, frozen=True, kw_only=True):
    """The digest of the state as it was just before this event; replay must find the same."""

    digest: Int
    in_flight: Int
    session_pins: Int
    prefix_pins: Int


class StoodStill(Flat, frozen=True, kw_only=True):
    """The router itself did nothing for ``for_ms`` up to here, as it measured: it was stopped,
    paused or swapped out, or had too little CPU. No limit of time ran meanwhile."""

    for_ms: Int


@attrs.frozen(kw_only=True, slots=False)
class Gap:
    """The log was not whole in this span: ``lost`` events of it are missing, and ``unlogged``
    responses went out before their decision was in the log.

    ``state`` is the whole state after what is missing (``projections.freeze``), where something is:
    the fold goes on from it.
    """

    lost: int
    from_ms: int
    to_ms: int
    unlogged: int = 0
    state: dict[str, Any] | None = None
