"""The policies by the names that go into events and settings."""

from collections.abc import Callable

from trioroute.events import InForce
from trioroute.policy.commands import Arrive
from trioroute.policy.least_work import least_work
from trioroute.policy.select import Choice, choose
from trioroute.projections import State
from trioroute.projections.prompts import POLICY as LEAST_WORK

Chooser = Callable[[State, Arrive], Choice]
"""Takes a decision for one request; reads the state and changes nothing."""

POLICIES: dict[str, Chooser] = {"soft-sticky": choose, LEAST_WORK: least_work}


def chooser_in_force(state: State) -> Chooser:
    return POLICIES[state.settings.policy.name]


def asks_for_blocks(settings: InForce) -> bool:
    """Whether the policy in force looks at the blocks of prompts, so that they must be made."""
    return settings.policy.name == LEAST_WORK
