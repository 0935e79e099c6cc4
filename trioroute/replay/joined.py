"""``verify`` by several processes: each stretch of the log is judged by one, and joined in order.
This process judges its share too: so nothing waits while the others start.

What a process did not find good is judged here once more, from the state that was reached: so the
first difference is found by the same steps as without other processes, and told the same.
"""

from contextlib import closing

import attrs

from trioroute.replay.check import NOT_KNOWN, Last
from trioroute.replay.judge import Judge
from trioroute.replay.processes import shared_out
from trioroute.replay.proof import Verified
from trioroute.replay.read import Past, Source
from trioroute.replay.stretches import (
    FalseSnapshot,
    Judged,
    Progress,
    Stretch,
    begin_stretch,
    compare_with,
    judge_stretch,
    judge_to,
    stretches,
)
from trioroute.replay.today import TodayCheck

FALSE_MAX = 3
"""So many snapshots that are false are no accident: the rest is judged without any."""


def judge_ahead(begun: Judge, until: int, processes: int, progress: Progress) -> Judge:
    """Judge the rows up to ``until`` as far as several processes can; who is to judge the rest.

    ``begun`` stands at the beginning of the log. Raises what judging a page raises.
    """
    source, result = begun.source, begun.result
    cut = stretches(source, result.head.seq, until)
    if len(cut) < 2:
        return begun
    join = _Join(source, result, begun)
    jobs = ((stretch, result.today is not None) for stretch in cut)
    with closing(shared_out(source, judge_stretch, jobs, processes)) as found:
        for stretch, judged in zip(cut, found, strict=False):
            if not stretch.next and not join.fits(judged):
                break
            join.take(stretch, judged, progress)
            if len(result.false_snapshots) >= FALSE_MAX:
                break
    return join.judge_from(cut)


@attrs.define
class _Join:
    """The stretches up to some row, each judged by a process or by ``judge``, which is None where
    the state that was reached is only known by the name of a snapshot, ``reached``."""

    source: Source
    result: Verified
    judge: Judge | None
    reached: bytes = b""
    last: dict[str, Last] = attrs.field(factory=dict)

    def fits(self, judged: Judged | None) -> bool:
        """Whether a stretch is good, and began from what was reached."""
        if judged is None or judged.began != self.reached:
            return False
        early = judged.early
        return all(one.number not in early.get(stream, ()) for stream, one in self.last.items())

    def take(self, stretch: Stretch, judged: Judged | None, progress: Progress) -> None:
        if judged is None or not self.fits(judged):
            self._judge_here(stretch, progress)
            return
        self._conclude(judged)
        self.result.add(judged.result)
        for kind, times in judged.skipped.items():
            self.source.skipped[kind] = self.source.skipped.get(kind, 0) + times
        self.judge, self.reached = None, judged.reached
        progress(self.result.head.seq)

    def _conclude(self, judged: Judged) -> None:
        """What the stretches before left of decisions comes to its end where others follow."""
        for stream, one in judged.last.items():
            if one.number != NOT_KNOWN:
                self._end(stream)
                self.last[stream] = one
        if not judged.reached:
            for stream in list(self.last):
                self._end(stream)

    def _end(self, stream: str) -> None:
        last = self.last.pop(stream, None)
        if last is not None and self.result.today is not None:
            check = TodayCheck(Past(stream), self.result)
            check.go_on(last)
            check.conclude()

    def _judge_here(self, stretch: Stretch, progress: Progress) -> None:
        judge = self.judge = self._here(stretch)
        if stretch.next:
            judge_to(judge, stretch.next, progress)
            self.reached = compare_with(judge, stretch.next)
            if not self.reached:
                self.result.false_snapshots.append(stretch.next)
        judge_to(judge, stretch.until, progress)
        if not all(check.settled for check in judge.checks.values()):
            self.reached = _NOTHING
        self.last = {stream: check.last() for stream, check in judge.checks.items()}

    def _here(self, stretch: Stretch) -> Judge:
        """Who judges a stretch in this process."""
        if self.judge is not None:
            return self.judge
        again = Verified(today=self.result.today)
        judge, name = begin_stretch(self.source, stretch, again)
        if name != self.reached or again.head != self.result.head:
            raise FalseSnapshot(stretch.snapshot)
        judge.result = self.result
        for stream, check in judge.checks.items():
            check.result = self.result
            if stream in self.last:
                check.go_on(self.last[stream])
        return judge

    def judge_from(self, cut: list[Stretch]) -> Judge:
        """Who judges what no process did."""
        if self.judge is not None:
            return self.judge
        for stretch in cut:
            if stretch.after == self.result.head.seq:
                return self._here(stretch)
        return Judge(self.source, self.result)  # the end is reached


_NOTHING = b"-"
"""No snapshot is named so."""
