"""The first and the last step of a process: Ctrl-C ends it as it ends any tool, without a trace.

That is by the signal itself, which a shell tells as 130, so that its loop over logs ends as well.
While modules are imported the signal ends the process at once, as nothing is begun yet: an
exception that comes up inside a native module's first steps can crash the interpreter. Later
it is a ``KeyboardInterrupt``, so that locks are freed and drafts unlinked on the way out.
"""

import signal
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:  # every import here is a moment in which Ctrl-C still leaves a trace
    from types import TracebackType

INTERRUPTED = 130


def main(prog_name: str | None = None) -> None:
    """The command ``trioroute``, as a process of its own."""
    end_at_once()
    sys.excepthook = _quiet
    from trioroute.cli.root import main as command  # here: its imports are slow

    try:
        command(prog_name=prog_name)
    except SystemExit as ended:
        end_at_once()
        if ended.code == INTERRUPTED:
            raise KeyboardInterrupt from None  # Python ends, and then by the signal
        raise


def end_at_once() -> None:
    """From now on SIGINT ends the process, unless something else is wanted of it already."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def end_in_order() -> None:
    """From now on it is a ``KeyboardInterrupt`` again."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _quiet(kind: type[BaseException], error: BaseException, trace: "TracebackType | None") -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
