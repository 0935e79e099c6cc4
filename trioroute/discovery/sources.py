"""Which source a setting asks for. One module each, registered here by hand."""

from trioroute.discovery.file import FileSource
from trioroute.discovery.found import Source
from trioroute.settings import DiscoverySetting


def source_of(setting: DiscoverySetting) -> Source:
    """The source of a ``[discovery.*]`` section."""
    return FileSource(setting.path)
