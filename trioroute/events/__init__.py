"""What happened: frozen facts, their closed vocabularies, and the codec that logs them.

Bottom of the house: imports nothing of trioroute outside this package. No clock, no chance, no
I/O, no float. ``Event`` is the union of every kind the log knows.
"""

from trioroute.events.codec import Event as Event
from trioroute.events.codec import UnreadableEvent as UnreadableEvent
from trioroute.events.codec import decode as decode
from trioroute.events.codec import encode as encode
from trioroute.events.codec import kind_of as kind_of
from trioroute.events.fleet import MODEL_NAME_MAX as MODEL_NAME_MAX
from trioroute.events.fleet import Draining as Draining
from trioroute.events.fleet import ReplicaJoined as ReplicaJoined
from trioroute.events.fleet import ReplicaLeft as ReplicaLeft
from trioroute.events.health import Ejected as Ejected
from trioroute.events.health import Live as Live
from trioroute.events.health import Probing as Probing
from trioroute.events.lifecycle import Checked as Checked
from trioroute.events.lifecycle import Configured as Configured
from trioroute.events.lifecycle import Gap as Gap
from trioroute.events.lifecycle import Orphaned as Orphaned
from trioroute.events.lifecycle import Started as Started
from trioroute.events.lifecycle import StoodStill as StoodStill
from trioroute.events.lifecycle import Stopped as Stopped
from trioroute.events.pins import Bound as Bound
from trioroute.events.pins import Rebound as Rebound
from trioroute.events.pins import Spilled as Spilled
from trioroute.events.pins import Unbound as Unbound
from trioroute.events.requests import Dispatched as Dispatched
from trioroute.events.requests import Failed as Failed
from trioroute.events.requests import Refused as Refused
from trioroute.events.requests import Released as Released
from trioroute.events.scrapes import Reading as Reading
from trioroute.events.scrapes import Scraped as Scraped
from trioroute.events.scrapes import ScrapeFailed as ScrapeFailed
from trioroute.events.sections import InForce as InForce
