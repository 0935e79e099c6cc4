"""Which source a setting asks for. One module each, registered here by hand."""

from collections.abc import Mapping

from trioroute.discovery.file import FileSource
from trioroute.discovery.found import Source
from trioroute.discovery.gpustack import GpuStackSource
from trioroute.discovery.kubernetes import KubernetesSource, in_cluster
from trioroute.settings import DiscoverySetting, DnsDiscovery, FileDiscovery, KubernetesDiscovery


def source_of(setting: DiscoverySetting, environ: Mapping[str, str]) -> Source:
    """The source of a ``[discovery.*]`` section, with its token out of ``environ``."""
    if isinstance(setting, FileDiscovery):
        return FileSource(setting.path)
    if isinstance(setting, KubernetesDiscovery):
        server = in_cluster(environ)
        return KubernetesSource(server, setting.selector, setting.namespace, setting.port)
    if isinstance(setting, DnsDiscovery):
        from trioroute.discovery.dns import DnsSource  # here: dnspython is for those who ask DNS

        return DnsSource(setting.name, setting.port, setting.scheme)
    token = environ.get(setting.token_env, "") if setting.token_env else ""
    return GpuStackSource(setting.url, token, setting.model)
