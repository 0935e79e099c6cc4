"""Discovery: replicas that others know of, found while the router runs (DISCOVERY.md).

A source tells complete lists of replicas, or that it has none to tell. One reconciler turns lists
into joins, leaves and drains, which are events like everyone else's. Knows nothing of ``proxy``,
``scrape`` and ``observe``; ``serve`` wires them.
"""

from trioroute.discovery.found import Found as Found
from trioroute.discovery.found import Source as Source
from trioroute.discovery.found import Tell as Tell
from trioroute.discovery.reconcile import Picture as Picture
from trioroute.discovery.reconcile import reconcile as reconcile
from trioroute.discovery.run import Discovery as Discovery
from trioroute.discovery.run import Standing as Standing
from trioroute.discovery.sources import source_of as source_of
