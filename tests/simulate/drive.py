"""An engine model driven by hand, without a world around it."""

from collections.abc import Callable, Iterable

from trioroute.simulate.engine_model import EngineModel
from trioroute.simulate.steps import Sequence

MS = 1_000_000


class Driven:
    """Runs an engine over arrivals; notes when each sequence had its first token and its last."""

    def __init__(self, engine: EngineModel) -> None:
        self.engine = engine
        self.first_ns: dict[int, int] = {}
        self.done_ns: dict[int, int] = {}
        self.runs = 0

    def run(
        self,
        arrivals: Iterable[tuple[int, Sequence]],
        *,
        one_step_at_a_time: bool = False,
        in_one_batch: bool = False,
        after_run: Callable[[int], None] = lambda _now_ns: None,
    ) -> None:
        """``arrivals`` are (time, sequence) in order of time."""
        engine = self.engine
        pending = list(arrivals)
        numbers = {id(sequence): number for number, (_, sequence) in enumerate(pending)}
        pending.reverse()
        if in_one_batch:  # else the first one to come starts alone
            engine.freeze(0)
            while pending:
                engine.submit(pending.pop()[1], 0)
            engine.thaw(0)
        while True:
            if one_step_at_a_time and engine._run is not None:
                engine._run.steps = 1
            next_ns = engine.next_ns
            if pending and (next_ns is None or pending[-1][0] < next_ns):
                at_ns, sequence = pending.pop()
                engine.submit(sequence, at_ns)
                continue
            if next_ns is None:
                return
            progress = engine.complete(next_ns)
            self.runs += 1
            self.first_ns.update({numbers[id(one)]: next_ns for one in progress.first})
            self.done_ns.update({numbers[id(one)]: next_ns for one in progress.done})
            after_run(next_ns)
