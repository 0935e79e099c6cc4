"""``[discovery.*]``: where replicas are found that no configuration names.

Kept beside the sections: the log holds what was found, not where.
"""

from collections.abc import Iterator, Mapping

import attrs

from trioroute.settings.checks import Clash
from trioroute.settings.keys import KeyInfo
from trioroute.settings.kinds import text

FILE = (
    KeyInfo(
        "discovery.file.path",
        text(empty=True, says="path of a file"),
        '""',
        "A watched list of replicas, JSON or TOML; empty: none.",
    ),
)
KEYS: tuple[KeyInfo, ...] = (*FILE,)


@attrs.frozen
class FileDiscovery:
    """A file that lists replicas."""

    path: str


DiscoverySetting = FileDiscovery


def discovery_of(values: Mapping[str, object]) -> Iterator[DiscoverySetting | Clash]:
    """The sources that these values of ``KEYS`` ask for, and what keeps one from being used."""
    path = values.get("discovery.file.path")
    if isinstance(path, str) and path:
        yield FileDiscovery(path)
