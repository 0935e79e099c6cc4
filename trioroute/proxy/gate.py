"""Whether the log is known to let no answer go (``log.on_failure`` = ``refuse``)."""

import attrs

from eventlog.journal import Journal
from trioroute.proxy.errors import RouterError

LOG_STALLED = RouterError(
    "log_stalled",
    "the router's event log cannot be written, and no answer leaves before its decision is in it;"
    " whoever runs the router finds why in its process log and at /readyz of its admin port",
    None,
    1,
)


@attrs.define
class Gate:
    """Once a request had to give up its wait for the log, all would, until something is committed.

    So they are refused before a replica works for them. A wait of each for itself lost: with a full
    disk every request ran to its end on a replica and was thrown away.
    """

    journal: Journal
    _commits: int | None = attrs.field(default=None, init=False)
    """Those there were when a request gave up last."""

    def give_up(self) -> None:
        self._commits = self.journal.commits

    @property
    def stalled(self) -> bool:
        return self._commits == self.journal.commits and self.journal.depth > 0
