"""Simulated replicas: an engine model that has an address, and that may be down or stand still."""

from collections.abc import Callable

from trioroute.events import Reading
from trioroute.simulate.clock import Clock
from trioroute.simulate.engine_model import EngineModel
from trioroute.simulate.profiles import EngineProfile
from trioroute.simulate.steps import Sequence

OnProgress = Callable[[Sequence], None]


class SimReplica:
    """One replica behind its name. ``on_first`` and ``on_done`` are told of its sequences;
    ``on_cut`` of every one that was on it, in order of submission, when its process died."""

    def __init__(
        self,
        name: str,
        profile: EngineProfile,
        clock: Clock,
        *,
        on_first: OnProgress,
        on_done: OnProgress,
        on_cut: OnProgress,
    ) -> None:
        self.name = name
        self.engine = EngineModel(profile)
        self.down = False
        self._clock = clock
        self._on_first = on_first
        self._on_done = on_done
        self._on_cut = on_cut
        self._here: dict[int, Sequence] = {}
        self._told_ns: int | None = None

    def submit(self, sequence: Sequence) -> None:
        self._here[id(sequence)] = sequence
        self.engine.submit(sequence, self._clock.now_ns)
        self._follow()

    def abort(self, sequence: Sequence) -> None:
        """The router closed the connection."""
        if self._here.pop(id(sequence), None) is not None:
            self.engine.abort(sequence, self._clock.now_ns)
            self._follow()

    def reading(self, own: int) -> Reading:
        """What a scrape reads now; ``own`` is the router's count at this moment."""
        cache = self.engine.cache
        return Reading(
            running=self.engine.running,
            waiting=len(self.engine.waiting),
            kv_m=cache.in_use * 1000 // cache.capacity,
            tokens=self.engine.generated_at(self._clock.now_ns),
            asleep=False,
            own=own,
            cache_tokens=self.engine.profile.kv_tokens,
        )

    def fall(self) -> None:
        """The process dies: its cache and streams are gone, connects are refused."""
        self.down = True
        self.engine.kill()
        self._told_ns = None
        cut, self._here = list(self._here.values()), {}
        for sequence in cut:
            self._on_cut(sequence)

    def rise(self) -> None:
        """It is back, empty."""
        self.down = False

    def slow_down(self, slow_m: int) -> None:
        self.engine.slow_down(slow_m, self._clock.now_ns)
        self._follow()

    def freeze(self) -> list[Sequence]:
        """Stand still; what is on it now, in order of submission."""
        self.engine.freeze(self._clock.now_ns)
        self._told_ns = None
        return list(self._here.values())

    def thaw(self) -> None:
        self.engine.thaw(self._clock.now_ns)
        self._follow()

    def holds(self, sequence: Sequence) -> bool:
        return id(sequence) in self._here

    def _follow(self) -> None:
        """Be called when the engine's run ends; a call for an earlier plan is let pass."""
        next_ns = self.engine.next_ns
        if next_ns is None:
            self._told_ns = None
        elif next_ns != self._told_ns:
            self._told_ns = next_ns
            self._clock.at(next_ns, self._run_ended)

    def _run_ended(self) -> None:
        now_ns = self._clock.now_ns
        if self._told_ns != now_ns:
            return
        self._told_ns = None
        progress = self.engine.complete(now_ns)
        self._follow()
        for sequence in progress.first:
            if id(sequence) in self._here:
                self._on_first(sequence)
        for sequence in progress.done:
            if self._here.pop(id(sequence), None) is not None:
                self._on_done(sequence)
