"""What a source tells: the whole list of its replicas, or why it has none to tell."""

import logging
from collections.abc import Sequence
from typing import Protocol

import attrs

from trioroute.settings import BadValue, ReplicaSetting

logger = logging.getLogger("trioroute.discovery")

FOUND_MAX = 1000
"""Replicas of one list. A longer one is not believed: nothing changes."""


@attrs.frozen(kw_only=True)
class Found:
    """A replica as a source sees it. ``models`` empty: asked from it. ``draining``: it shall get no
    new request, and leaves when its running ones have ended."""

    name: str
    url: str
    models: tuple[str, ...] = ()
    engine: str = "vllm"
    draining: bool = False


class Tell(Protocol):
    """Where a source tells what it sees. Plain and quick calls."""

    def found(self, replicas: Sequence[Found]) -> None:
        """The whole list as it is now; again whenever it was looked at, changed or not."""
        ...

    def outage(self, why: str) -> None:
        """Nothing can be told now; what was told before stands. No secret in ``why``."""
        ...


class Source(Protocol):
    """One place where replicas are found. ``name`` is a label of metrics: a closed word."""

    @property
    def name(self) -> str: ...

    async def watch(self, tell: Tell) -> None:
        """Tell for ever, until cancelled. Outages are told, never raised."""
        ...


def usable(
    source: str, name: object, url: str, *, draining: bool = False, engine: str = "vllm"
) -> Found | None:
    """A replica that may belong to the fleet; one that may not is told in the process log."""
    try:
        replica = ReplicaSetting(name=str(name), url=url)
    except BadValue as bad:
        logger.warning("discovery %s: %a at %s cannot be used: it %s", source, name, url, bad)
        return None
    return Found(name=replica.name, url=replica.url, draining=draining, engine=engine)
