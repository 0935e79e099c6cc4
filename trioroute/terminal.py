"""The console of every command that shows tables and colours."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from trioroute.printable import printable


class Terminal(Console):
    """As rich's, which passes on escapes inside of texts: here only its own reach a terminal."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Every text that is shown goes through here, also each cell of a table."""
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or text.isprintable() or text == "\n":
                yield segment
            else:
                yield Segment(printable(text), segment.style)

    def on_broken_pipe(self) -> None:
        """Rich's ends the process with 1, which says that a check failed."""
        raise  # the BrokenPipeError that it is called for
