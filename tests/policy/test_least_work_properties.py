"""Whatever the world does: ``least-work`` keeps the rules of health, its books, and its replays."""

import attrs
from hypothesis import HealthCheck, given, settings

from tests import rig as rigs
from tests.ledger import check_all
from tests.projections.test_prompts import check_tree
from tests.rig import FOUR, Answer
from tests.scenario import run_course
from tests.test_properties import WatchedRig, courses, draws
from trioroute import events as e
from trioroute.policy import commands as c
from trioroute.projections.prompts import BLOCK_BYTES
from trioroute.router import Decided


def chain(draw: int) -> tuple[int, ...]:
    """Prompts that share beginnings: a path in a tree of three branches a block."""
    depth, node, found = draw % 23, 1, []
    for at in range(depth):
        node = node * 3 + (draw >> 2 * at) % 3
        found.append(node)
    return tuple(found)


class WorkRig(WatchedRig):
    """Every request has blocks; caches are small, so that blocks are pushed out."""

    def __init__(self) -> None:
        super().__init__(rigs.settings(policy={"name": "least-work"}))

    def send(self, arrive: c.Arrive) -> Answer:
        blocks = arrive.blocks if arrive.attempt > 1 else chain(arrive.draw)
        size = max(arrive.prompt_bytes, len(blocks) * BLOCK_BYTES)
        return super().send(attrs.evolve(arrive, blocks=blocks, prompt_bytes=size))

    def reading(self, name: str, *args: int | None, **told: object) -> e.Reading:
        made = super().reading(name, *args, **told)  # type: ignore[arg-type]  # handed on as it is
        return attrs.evolve(made, cache_tokens=None if name == "d" else 20_000)

    def handle(self, command: c.Command) -> Decided:
        decided = super().handle(command)
        check_tree(self.state.prompts)
        assert {*self.state.prompts.promises} <= {*self.state.load.flights}
        return decided


@given(courses, draws)
@settings(
    max_examples=50, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
def test_any_course_keeps_the_books_of_prompts(course: list[tuple[int, int]], draw: int) -> None:
    rig = WorkRig()
    rig.live(*FOUR)
    run_course(rig, course)
    assert not rig.logged(e.Bound)
    for event in rig.logged(e.Dispatched):
        assert event.uncached <= event.prompt_bytes
        assert not event.base or event.blocks or event.uncached >= 0
    check_all(rig, draw)
