"""Steps from an older schema of a kind to the next: pure functions from dict to dict.

``UPCASTS[kind][i]`` turns schema ``i + 1`` into ``i + 2``; a kind's newest schema is one more than
its steps. There is no step yet: every kind is at schema 1.
"""

from collections.abc import Callable
from typing import Any

Upcast = Callable[[dict[str, Any]], dict[str, Any]]

UPCASTS: dict[str, tuple[Upcast, ...]] = {}
