"""Health in the process log: a line when a replica leaves traffic, stalls, returns, or joins.

Told by the events themselves, so it cannot say anything else than the event log does.
"""

import logging

from trioroute.counted import plural
from trioroute.events import (
    Dispatched,
    Draining,
    Ejected,
    Live,
    Orphaned,
    Probing,
    Released,
    ReplicaJoined,
    ReplicaLeft,
    ScrapeFailed,
)
from trioroute.observe.pools import lost_by, lost_words
from trioroute.projections import Stalls, State
from trioroute.router import Decided

logger = logging.getLogger("trioroute.health")


QUIET = frozenset({Dispatched, Released})
"""Nearly all events: nothing to say, and not to be asked seven questions each."""


class HealthNotes:
    """A listener of the router; plain and quick."""

    def __init__(self, state: State, log: str) -> None:
        self._state = state
        self._log = log
        self._stalls = Stalls()
        self._never = dict[str, int]()
        """Failed scrapes of replicas that were never LIVE in this run."""
        self._told_never = False

    def listen(self, decided: Decided) -> None:
        loud = False
        for event in decided.events:
            if type(event) in QUIET:
                continue
            loud = True
            if isinstance(event, Ejected):
                self._ejected(event)
            elif isinstance(event, ScrapeFailed):
                self._not_reached(event)
            elif isinstance(event, Live):
                self._never.clear()
                self._told_never = False
                logger.info("replica %s LIVE", event.replica)
            elif isinstance(event, Probing):
                logger.info("replica %s PROBING: back with limited traffic", event.replica)
            elif isinstance(event, Draining):
                word = "DRAINING" if event.on else "undrained"
                logger.info("replica %s %s%s", event.replica, word, _who(event))
                if event.on:
                    self._nobody_left(event.replica)
            elif isinstance(event, ReplicaJoined):
                logger.info(
                    "replica %s joined or changed: %s%s", event.replica, event.url, _who(event)
                )
            elif isinstance(event, ReplicaLeft):
                self._never.pop(event.replica, None)
                logger.info("replica %s left%s", event.replica, _who(event))
            elif isinstance(event, Orphaned):
                ran = plural(len(event.dispatches), "request")
                how = "lost its last events" if event.ends_lost else "died"
                logger.info("%s ran when the last run %s", ran, how)
        if loud:
            for stall in self._stalls.look(self._state):
                level = logging.INFO if stall.over else logging.WARNING
                logger.log(level, "replica %s %s", stall.replica, stall.words())

    def _ejected(self, event: Ejected) -> None:
        cooldown_s = (event.until_ms - self._state.at_ms + 999) // 1000
        logger.warning(
            "replica %s EJECTED for %d s at least (%s; eject %d in a row)%s: "
            "trioroute replay %s --replica %s",
            event.replica,
            cooldown_s,
            "by hand" if event.cause == "none" else event.cause,
            event.n,
            _who(event),
            self._log,
            event.replica,
        )
        self._nobody_left(event.replica)

    def _not_reached(self, event: ScrapeFailed) -> None:
        """Say once that no replica was ever reached: none left traffic, so nothing else tells that
        every request is refused. A single failed scrape may be an engine that starts."""
        if self._told_never or self._state.standing(event.replica) != "JOINING":
            return
        self._never[event.replica] = self._never.get(event.replica, 0) + 1
        replicas = self._state.fleet.replicas
        most = self._state.settings.eject.scrape_failures
        if all(self._never.get(name, 0) >= most for name in replicas):
            self._told_never = True
            logger.error(
                "nobody is routable: the fleet (%s) was never reached (%s: %s): look at the "
                "addresses, and whether the engines run",
                plural(len(replicas), "replica"),
                replicas[event.replica].url,
                event.cause,
            )

    def _nobody_left(self, replica: str) -> None:
        """Whom nobody serves any more, as this replica is out of traffic."""
        if not self._state.anyone_routable():
            fleet = plural(len(self._state.fleet.replicas), "replica")
            logger.error("nobody is routable: the whole fleet (%s) is out of traffic", fleet)
            return
        lost = lost_by(self._state, replica)
        if lost:
            logger.error("nobody serves %s: its whole pool is out of traffic", lost_words(lost))


def _who(event: Draining | Ejected | ReplicaJoined | ReplicaLeft) -> str:
    """Who did it and why, where it was not the start or the rules of health."""
    if event.by in (None, "start"):
        return ""
    return f" (by {event.by}{': ' if event.why else ''}{event.why})"
