"""Why did this request go there? Reads a log, folds it, explains and proves decisions.

May import everything below: events, eventlog, settings, projections, policy; and ``simulate``, for
what a what-if question would have led to. Never writes a log and holds no transaction: pages are
read one by one, so the log of a running router may be read. Memory is that of one state, however
long the log is.

``read`` is the way in, ``explain`` and ``followed`` tell one decision, ``verify`` takes all of them
again, ``what_if`` does so under other settings and ``rest`` simulates what came of it, ``find``,
``session``, ``replica``, ``moment`` and ``incident`` answer the other questions; ``present`` prints
what they found.
"""

from trioroute.replay.explain import explain_decision as explain_decision
from trioroute.replay.read import CannotRead as CannotRead
from trioroute.replay.read import NotFound as NotFound
from trioroute.replay.read import Source as Source
