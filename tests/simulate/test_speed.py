"""How fast virtual time passes: printed for whoever asks (``-s``), since machines differ."""

import time
from pathlib import Path

from trioroute.simulate.compare import Comparison, contenders
from trioroute.simulate.profiles import PROFILES
from trioroute.simulate.workloads import workload_of

EXCERPT = Path(__file__).parent / "data" / "mooncake-300.jsonl.gz"


def test_the_excerpt_runs_to_its_end() -> None:
    workload = workload_of(str(EXCERPT), 1)
    comparison = Comparison(workload=workload, engine=PROFILES["a100"], replicas=4, seed=1)
    (contender,) = contenders(["soft-sticky"], {})
    begin = time.process_time()
    outcome = comparison.run(contender)
    spent_s = time.process_time() - begin
    print(f"\n{workload.requests} requests, {workload.requests / spent_s:.0f} a CPU second")  # noqa: T201 - the figure is what this test is for
    assert outcome.errors == 0
