"""Lines into a descriptor: written whole, and counted where it does not take them."""

import os
from collections.abc import Callable

import attrs

Write = Callable[[int, memoryview], int]
"""As ``os.write``."""


def _all(data: bytes, _begin: int) -> int:
    return len(data)


@attrs.define(eq=False)
class WholeLines:
    """Remembers whether the last line was cut in two: then that one is ended before the next."""

    _torn: bool = attrs.field(default=False, init=False)

    def put(
        self,
        descriptor: int,
        data: bytes,
        piece_end: Callable[[bytes, int], int] = _all,
        write: Write = os.write,
    ) -> tuple[int, OSError | None]:
        """How many of ``data``'s lines were not written, and why; (0, None) if all were.

        ``piece_end`` says up to where to write at once, from a place on.
        """
        begun = b"\n" if self._torn and data else b""
        whole, done = begun + data, 0
        try:
            while done < len(whole):
                taken = write(descriptor, memoryview(whole)[done : piece_end(whole, done)])
                done += taken
                if taken:
                    self._torn = whole[done - 1 : done] != b"\n"
        except OSError as error:
            return data.count(b"\n", max(0, done - len(begun))), error
        return 0, None
