"""A process that a test starts ends with it, whatever becomes of the test."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended(*processes: subprocess.Popen[str] | subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill and wait for all of them at the end. One that was left would be a ResourceWarning, and
    so a failure, of the test that happens to run when it is collected."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            with process:  # closes its pipes and waits
                pass
