"""What the process log says about scraping: one line per change of state, never one per scrape.

The numbers are in the metrics; a closed port scraped for a night must not fill the disk.
"""

import logging
from typing import Literal

import attrs

from trioroute.events.words import Cause

log = logging.getLogger("trioroute.scrape")

AUTH_STATUSES = (401, 403)


@attrs.define
class Notices:
    """What was said last about one replica, so that it is not said again."""

    name: str
    _said: Literal["", "ok", "failing", "unasked"] = ""
    _said_unknown: bool = False
    _said_auth: bool = False

    def good(self, *, has_load: bool) -> None:
        if self._said != "ok":
            log.info("replica %s: scrapes succeed", self.name)
        self._said = "ok"
        self._said_auth = False
        if not has_load and not self._said_unknown:
            log.warning(
                "replica %s: load unknown, it answers without the series of running and waiting"
                " requests; it is judged by this router's own requests alone",
                self.name,
            )
        elif has_load and self._said_unknown:
            log.info("replica %s: its load is known again", self.name)
        self._said_unknown = not has_load

    def failed(self, cause: Cause, status: int | None) -> None:
        auth = status in AUTH_STATUSES
        if auth and not self._said_auth:
            log.warning(
                "replica %s: scrapes fail, authentication: it answered %s; name the variable with"
                " its key in api_key_env, and list its models if only /v1 asks for the key",
                self.name,
                status,
            )
        elif self._said != "failing":
            shown = cause if status is None else f"{cause} {status}"
            log.warning("replica %s: scrapes fail, %s", self.name, shown)
        self._said = "failing"
        self._said_auth = self._said_auth or auth

    def unasked(self, why: str) -> None:
        """The router could not ask."""
        if self._said != "unasked":
            log.error("replica %s: not scraped, %s; not held against it", self.name, why)
        self._said = "unasked"
