"""Steps from an older schema of a kind to the next: pure functions from dict to dict.

``UPCASTS[kind][i]`` turns schema ``i + 1`` into ``i + 2``; a kind's newest schema is one more than
its steps.
"""

from collections.abc import Callable
from typing import Any

Upcast = Callable[[dict[str, Any]], dict[str, Any]]


def _as_it_is(fields: dict[str, Any]) -> dict[str, Any]:
    """Where a schema only adds a field that may be left out. It has a number of its own all the
    same, so that an older release names the newer one instead of calling the body unreadable."""
    return fields


UPCASTS: dict[str, tuple[Upcast, ...]] = {"Started": (_as_it_is,), "Stopped": (_as_it_is,)}
