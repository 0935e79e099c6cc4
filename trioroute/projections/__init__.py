"""Folds: the state as a function of the log, and nothing else.

May import ``trioroute.events`` only. ``apply`` is the one way state changes: live, recovery,
replay and simulation all call it. A fold never judges and never refuses; what should happen was
decided before the event was written. Expiry is judged against ``at_ms`` by whoever asks.
"""

from trioroute.projections.fleet import Fleet as Fleet
from trioroute.projections.fleet import Replica as Replica
from trioroute.projections.folds import apply as apply
from trioroute.projections.health import Health as Health
from trioroute.projections.load import Flight as Flight
from trioroute.projections.load import Load as Load
from trioroute.projections.load import ReplicaLoad as ReplicaLoad
from trioroute.projections.pins import Pin as Pin
from trioroute.projections.pins import Pins as Pins
from trioroute.projections.stalls import Stall as Stall
from trioroute.projections.stalls import Stalls as Stalls
from trioroute.projections.state import State as State
from trioroute.projections.tally import Tally as Tally
