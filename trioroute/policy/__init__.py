"""The routing rules: pure functions from (state, command) to events.

May import ``trioroute.events`` and ``trioroute.projections``. Reads the state, never changes it:
what a command brings (time, a random draw, an id) is a value inside the command.

``select`` holds the five steps of RULES 4, ``pinning`` RULES 5, ``recovery`` RULES 6; ``decide``
joins them, ``explain`` tells a choice in words from the very same values.
"""

from trioroute.policy.decide import decide as decide
from trioroute.policy.select import Choice as Choice
from trioroute.policy.select import choose as choose

RULES_VERSION = 1
"""Raised when the same past may be decided differently; ``verify`` then says "rule changed"."""
