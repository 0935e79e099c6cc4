"""The body reader's process: ``python -m trioroute.proxy.bodies.child``, a socket as its input.

It ends when the router's end of the socket closes, however the router ended. It writes nothing but
answers: a prompt is in no argument, no environment, no error output and no core file.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)  # before the slow imports: it is the router that ends
signal.signal(signal.SIGTERM, signal.SIG_IGN)

import gc  # noqa: E402  the signals come first
import os  # noqa: E402
import resource  # noqa: E402
import sys  # noqa: E402
from contextlib import suppress  # noqa: E402
from io import BufferedReader  # noqa: E402
from pathlib import Path  # noqa: E402

from trioroute.proxy.bodies.facts import read_facts  # noqa: E402
from trioroute.proxy.bodies.frames import (  # noqa: E402
    QUESTION,
    READY,
    Answer,
    Found,
    pack_answer,
    unpack_question,
)
from trioroute.proxy.body import UnusableBody  # noqa: E402

RSS_MAX = 128 << 20
"""What it may keep between two bodies: above it the process ends, and with it what it holds."""

GC_THRESHOLD = 50_000
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
OOM_SCORE = b"500"
"""Linux ends this process before the router, who can do without it (proc(5), oom_score_adj)."""


def main(rss_max: int = RSS_MAX) -> None:
    """Read bodies until nobody asks any more."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _volunteer()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 50)
    with os.fdopen(0, "rb") as questions:
        try:
            os.write(0, READY)
            while (answer := _answer(questions, rss_max)) is not None:
                _write(pack_answer(answer))
                if answer.leaves:
                    return
        except BrokenPipeError:  # the router is gone
            return


def _answer(questions: BufferedReader, rss_max: int) -> Answer | None:
    """None at the end of the questions, be it in the middle of one."""
    lengths = questions.read(QUESTION.size)
    if len(lengths) < QUESTION.size:
        return None
    words_size, body_size = QUESTION.unpack(lengths)
    words = questions.read(words_size)
    body = questions.read(body_size)
    if len(words) + len(body) < words_size + body_size:
        return None
    found: Found
    try:
        found = read_facts(unpack_question(words), body)
    except UnusableBody as unusable:
        found = unusable.error
    del words, body
    return Answer(found, leaves=_rss() > rss_max)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(0, data) :]


def _rss() -> int:
    """Bytes of memory that are resident now (proc(5), statm)."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * PAGE_BYTES


def _volunteer() -> None:
    with suppress(OSError):  # not everywhere allowed, and never needed
        Path("/proc/self/oom_score_adj").write_bytes(OOM_SCORE)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RSS_MAX)
