"""The limits in time of a running router, and its word to its log that it stood still itself."""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from eventlog.errors import LogError
from trioroute.events import InForce
from trioroute.policy import commands as c
from trioroute.proxy.watch import Watch
from trioroute.router import Router

logger = logging.getLogger("trioroute")


def watch_of(router: Router, now_ms: Callable[[], int]) -> Watch:
    """It tells the log that the router itself stood still, if that takes the row."""

    def stood(late_ms: int) -> None:
        with suppress(LogError):
            router.handle(c.StandStill(at_ms=now_ms(), for_ms=late_ms))

    settings, refuses = partial(_settings, router), partial(_refuses, router)
    return Watch(now_ms, settings, refuses, logger.warning, stood)


def _settings(router: Router) -> InForce:
    return router.state.settings


def _refuses(router: Router, replica: str) -> bool:
    """RULES 6.13: out of traffic because nothing listens there any more."""
    health = router.state.health.get(replica)
    return health is not None and health.refuses()
