"""What happened to the router itself."""

from typing import Any

import attrs

from trioroute.events.sections import InForce
from trioroute.events.words import ChangedBy


@attrs.frozen(kw_only=True, slots=False)
class Started:
    """The router opened its log and is about to listen. Time may step back here and only here."""

    router: str
    release: str
    rules: int


@attrs.frozen(kw_only=True, slots=False)
class Configured:
    """These settings are in force from here on; secrets are not among them.

    ``digest`` names the file they came from: the first 16 digits of its SHA-256, empty without one.
    """

    settings: InForce
    digest: str = ""
    by: ChangedBy = "start"
    why: str = ""


@attrs.frozen(kw_only=True, slots=False)
class Orphaned:
    """Dispatches of an earlier run that have no end in the log: the router died under them."""

    dispatches: tuple[int, ...]


@attrs.frozen(kw_only=True, slots=False)
class Stopped:
    """The router ended in order; nothing follows but a ``Started``.

    ``head`` is ``SEQ:CHAIN`` of the last row that was committed before; None without a chain.
    """

    cause: str
    head: str | None = None


@attrs.frozen(kw_only=True, slots=False)
class Checked:
    """The digest of the state as it was just before this event; replay must find the same."""

    digest: int
    in_flight: int
    session_pins: int
    prefix_pins: int


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
