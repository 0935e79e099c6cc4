"""Which source a setting asks for. One module each, registered here by hand."""

from collections.abc import Mapping

from trioroute.discovery.file import FileSource
from trioroute.discovery.found import Source
from trioroute.discovery.gpustack import GpuStackSource
from trioroute.settings import DiscoverySetting, FileDiscovery


def source_of(setting: DiscoverySetting, environ: Mapping[str, str]) -> Source:
    """The source of a ``[discovery.*]`` section, with its token out of ``environ``."""
    if isinstance(setting, FileDiscovery):
        return FileSource(setting.path)
    token = environ.get(setting.token_env, "") if setting.token_env else ""
    return GpuStackSource(setting.url, token, setting.model)
