"""What people and Prometheus see: metrics, state, events, dashboard, decisions, fleet changes.

May import ``eventlog``, ``trioroute.events``, ``settings``, ``projections``, ``policy`` and
``router``; neither ``proxy``, ``scrape`` and ``discovery`` nor what stands above them. Reads the
same projections that decide, so a panel cannot tell another story than the log; only what is no
event (how long a decision took, how late the loop was) is measured beside them, in ``Timings``.

``serve`` wires it: one ``Timings``, one ``AdminDesk``, ``admin_app(desk)`` on the admin port, and
``watch_loop_lag`` and ``tell_refusals`` as tasks.
"""

from trioroute.observe.admin import AdminDesk as AdminDesk
from trioroute.observe.admin import admin_app as admin_app
from trioroute.observe.between import Seen as Seen
from trioroute.observe.changes import BadReplica as BadReplica
from trioroute.observe.changes import Changes as Changes
from trioroute.observe.changes import NoSuchReplica as NoSuchReplica
from trioroute.observe.changes import Reloaded as Reloaded
from trioroute.observe.changes import ReplicaExists as ReplicaExists
from trioroute.observe.exporter import Exporter as Exporter
from trioroute.observe.feed import Feed as Feed
from trioroute.observe.health_notes import HealthNotes as HealthNotes
from trioroute.observe.refusals import Refusals as Refusals
from trioroute.observe.refusals import tell_refusals as tell_refusals
from trioroute.observe.state_view import view as view
from trioroute.observe.timings import LogView as LogView
from trioroute.observe.timings import Timings as Timings
from trioroute.observe.timings import watch_loop_lag as watch_loop_lag
