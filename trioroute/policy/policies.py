"""The policies by the names that go into events and settings."""

from collections.abc import Callable

from trioroute.policy.commands import Arrive
from trioroute.policy.select import Choice, choose
from trioroute.projections import State

Chooser = Callable[[State, Arrive], Choice]
"""Takes a decision for one request; reads the state and changes nothing."""

POLICIES: dict[str, Chooser] = {"soft-sticky": choose}


def chooser_in_force(state: State) -> Chooser:
    return POLICIES[state.settings.policy.name]
