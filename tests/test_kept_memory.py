"""Memory that large bodies freed is used again, without new pages from the kernel."""

import os
import subprocess
import sys

import pytest

BODIES = """
import resource
from trioroute.kept_memory import keep_freed_memory
kept = keep_freed_memory() if {keep} else None

def turn():
    bodies = [b"x" * 2_400_000 for _ in range(4)]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(5):
    turn()
before = faults()
for _ in range(50):
    turn()
print(kept, faults() - before)
"""


def _run(keep: bool, **environ: str) -> tuple[str, int]:
    told = subprocess.run(
        [sys.executable, "-c", BODIES.format(keep=keep)],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    kept, faults = told.stdout.split()
    return kept, int(faults)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc is tuned")
def test_bodies_of_megabytes_take_no_new_pages_for_each_request() -> None:
    kept, faults = _run(keep=True)
    _, without = _run(keep=False)
    if kept == "False":
        pytest.skip("this C library is not glibc")
    assert faults < 500  # 50 turns of 2,300 pages
    assert without > 50_000


def test_an_operator_s_own_tuning_is_left_alone() -> None:
    assert _run(keep=True, MALLOC_TRIM_THRESHOLD_="131072")[0] == "False"
