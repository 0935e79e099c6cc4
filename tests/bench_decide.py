"""What one decision costs: ``python -m tests.bench_decide``. Prints CPU time, asserts nothing.

``handle(Arrive)`` is decide, encode and fold, into a log in memory: 4 replicas, 10,000 session and
10,000 prefix pins; three of four requests have a session that is pinned.
"""

import gc
import sys
import time
from collections.abc import Callable

from tests.rig import FOUR, MODEL, Flown, Rig, answer_of
from trioroute.policy import choose
from trioroute.policy import commands as c
from trioroute.projections.digest import digest

PINS = 10_000
ROUNDS = 20_000
IN_FLIGHT = 64


def loaded() -> Rig:
    rig = Rig()
    rig.live(*FOUR)
    for number in range(PINS):
        rig.use(f"s{number}", f"p{number}")
    return rig


def arrive_at(rig: Rig, number: int) -> c.Arrive:
    rig.at_ms += number % 2
    return c.Arrive(
        at_ms=rig.at_ms,
        request_id=f"request-{number}",
        model=MODEL,
        prompt_bytes=4000 + number % 9000,
        session=f"s{number * 7919 % PINS}" if number % 4 else None,
        prefix=f"p{number * 31 % PINS}",
        draw=number,
    )


def figures(name: str, spent_ns: list[int]) -> str:
    spent_ns.sort()
    middle, high = spent_ns[len(spent_ns) // 2], spent_ns[len(spent_ns) * 99 // 100]
    return f"{name:<22} median {middle / 1000:6.1f} µs   p99 {high / 1000:6.1f} µs"


def timed(action: Callable[[], object], spent_ns: list[int]) -> object:
    begin_ns = time.thread_time_ns()
    result = action()
    spent_ns.append(time.thread_time_ns() - begin_ns)
    return result


def main() -> None:
    rig = loaded()
    flying: list[Flown] = []
    handled: list[int] = []
    chosen: list[int] = []
    released: list[int] = []
    gc.collect()
    gc.freeze()
    for number in range(ROUNDS):
        if number % 600 == 0:
            rig.same()
        arrive = arrive_at(rig, number)
        timed(lambda arrive=arrive: choose(rig.state, arrive), chosen)  # type: ignore[misc]  # a default binds the loop's value
        begin_ns = time.thread_time_ns()
        decided = rig.router.handle(arrive)
        handled.append(time.thread_time_ns() - begin_ns)
        answer = answer_of(decided)
        assert isinstance(answer, Flown)
        flying.append(answer)
        if len(flying) > IN_FLIGHT:
            oldest = flying.pop(0)
            timed(lambda oldest=oldest: rig.finish(oldest), released)  # type: ignore[misc]  # as above
    checks: list[int] = []
    for _ in range(200):
        timed(lambda: digest(rig.state), checks)
    lines = [
        figures("choose", chosen),
        figures("handle(Arrive)", handled),
        figures("handle(Finish)", released),
        figures("digest", checks),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
