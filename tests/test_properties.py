"""Whatever the world does, in whatever order: the core keeps its books and decides purely.

Around every command: the decision is pure, answers the same twice, and chooses among the
candidates only; what is in flight adds up. At the end (``tests.ledger``): one end for each
dispatch, totals that equal the log, nothing left, and one state by whatever way it is folded: the
whole log, a snapshot and its tail, what a crash left durable, a store.
"""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ledger import check_all
from tests.listlog import check_sums
from tests.rig import FOUR, Rig
from tests.scenario import STEPS, run_course
from trioroute import events as e
from trioroute.policy import commands as c
from trioroute.policy import decide
from trioroute.projections.digest import digest
from trioroute.router import Decided

ROUTABLE = ("LIVE", "PROBING")


class WatchedRig(Rig):
    """Looks at the state around every command."""

    def handle(self, command: c.Command) -> Decided:
        if command.at_ms >= self.state.at_ms or isinstance(command, c.Start):
            self._decides_purely(command)
        standing = {name: self.standing(name) for name in self.state.fleet.replicas}
        pools = self.state.fleet.pools
        decided = super().handle(command)
        for event in decided.events:
            if isinstance(event, e.Dispatched):
                assert event.replica not in event.tried
                if event.reason == "fallback":
                    assert standing[event.replica] == "EJECTED"
                    pool = [standing[replica.name] for replica in pools[event.model]]
                    assert not set(pool) & set(ROUTABLE)
                else:
                    assert standing[event.replica] in ROUTABLE
            if isinstance(event, e.Bound | e.Rebound):
                assert standing[event.replica] == "LIVE"
        check_sums(self.state)
        return decided

    def _decides_purely(self, command: c.Command) -> None:
        before, checksum = repr(self.state), digest(self.state)
        assert decide(self.state, command) == decide(self.state, command)
        assert (repr(self.state), digest(self.state)) == (before, checksum)


draws = st.integers(0, 2**40)
courses = st.lists(st.tuples(st.sampled_from(range(len(STEPS))), draws), min_size=5, max_size=60)


@given(courses, draws)
@settings(
    max_examples=60, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
def test_any_course_of_events_keeps_the_books(course: list[tuple[int, int]], draw: int) -> None:
    rig = WatchedRig()
    rig.live(*FOUR)
    run_course(rig, course)
    check_all(rig, draw)
