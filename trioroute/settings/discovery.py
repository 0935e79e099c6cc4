"""``[discovery.*]``: where replicas are found that no configuration names.

Kept beside the sections: the log holds what was found, not where.
"""

import re
from collections.abc import Callable, Iterator, Mapping

import attrs

from trioroute.quantities import BadValue
from trioroute.settings.addresses import parse_replica_url, url_shown
from trioroute.settings.checks import Clash
from trioroute.settings.keys import KeyInfo
from trioroute.settings.kinds import Kind, choice, number, text, variable


def _server_url(value: object) -> str:
    return "" if value == "" else parse_replica_url(value)


def _port(value: object) -> str:
    """A number, or the name of a port."""
    number = isinstance(value, int) and not isinstance(value, bool)
    told = str(value) if number else value
    if not isinstance(told, str):
        raise BadValue("is no port", "write its number or its name")
    if told.isdigit() and told.isascii() and len(told) < 6 and 0 < int(told) < 65_536:
        return told
    if told and not re.fullmatch(r"(?=.*[a-z])[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?", told):
        raise BadValue("is no port", "write its number or its name")
    return told


PORT = Kind("port, a number or a name, or empty", _port)
SERVER_URL = Kind("URL or empty", _server_url, show=url_shown)

FILE = (
    KeyInfo(
        "discovery.file.path",
        text(empty=True, says="path of a file"),
        '""',
        "A watched list of replicas, JSON or TOML; empty: none.",
    ),
)
GPUSTACK = (
    KeyInfo(
        "discovery.gpustack.url",
        SERVER_URL,
        '""',
        "A GPUStack server, 2.x or 0.7, whose running instances are replicas; empty: none.",
    ),
    KeyInfo(
        "discovery.gpustack.token_env", variable(), '""', "The variable that holds its API key."
    ),
    KeyInfo(
        "discovery.gpustack.model",
        text(empty=True, says="model name"),
        '""',
        "Only instances of this model; empty: of all.",
    ),
)
_DNS_LABEL = text(
    empty=True,
    pattern=r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
    says="name of lower-case letters, digits and dashes",
)
KUBERNETES = (
    KeyInfo(
        "discovery.kubernetes.selector",
        text(empty=True, says="label selector"),
        '""',
        "Labels of EndpointSlices, such as kubernetes.io/service-name=vllm, whose pods are"
        " replicas; empty: none.",
    ),
    KeyInfo(
        "discovery.kubernetes.namespace", _DNS_LABEL, '""', "Their namespace; empty: the pod's own."
    ),
    KeyInfo(
        "discovery.kubernetes.port",
        PORT,
        '""',
        "Name or number of the API's port; empty: the only one of a slice.",
    ),
)
DNS = (
    KeyInfo(
        "discovery.dns.name",
        text(empty=True, pattern=r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,253}", says="name in the DNS"),
        '""',
        "A name whose addresses are replicas; empty: none.",
    ),
    KeyInfo(
        "discovery.dns.port",
        number(0, 65_535),
        "0",
        "The replicas' port; 0: the name has SRV records, which tell it.",
    ),
    KeyInfo("discovery.dns.scheme", choice("http", "https"), '"http"', "What the replicas speak."),
)
KEYS: tuple[KeyInfo, ...] = (*FILE, *DNS, *GPUSTACK, *KUBERNETES)


@attrs.frozen
class FileDiscovery:
    """A file that lists replicas."""

    path: str


@attrs.frozen
class GpuStackDiscovery:
    """A GPUStack server. ``token_env`` names the variable with its key, empty: none."""

    url: str
    token_env: str = ""
    model: str = ""


@attrs.frozen
class KubernetesDiscovery:
    """EndpointSlices of the cluster the router runs in."""

    selector: str
    namespace: str = ""
    port: str = ""


@attrs.frozen
class DnsDiscovery:
    """A name in the DNS. Port 0: it has SRV records."""

    name: str
    port: int = 0
    scheme: str = "http"


DiscoverySetting = FileDiscovery | DnsDiscovery | GpuStackDiscovery | KubernetesDiscovery


def discovery_of(
    values: Mapping[str, object], environ: Mapping[str, str]
) -> Iterator[DiscoverySetting | Clash]:
    """The sources that these values of ``KEYS`` ask for, and what keeps one from being used."""

    def told(key: str) -> str:
        return str(values.get(f"discovery.{key}", ""))

    if told("file.path"):
        yield FileDiscovery(told("file.path"))
    if told("dns.name"):
        port = int(told("dns.port") or 0)
        yield DnsDiscovery(told("dns.name"), port, told("dns.scheme") or "http")
    elif told("dns.port") not in ("", "0"):
        yield from _useless("dns", "name", ("port",), told)
    yield from _useless("gpustack", "url", ("token_env", "model"), told)
    if told("gpustack.url"):
        token_env = told("gpustack.token_env")
        yield from without_token("discovery.gpustack.token_env", token_env, environ)
        yield GpuStackDiscovery(told("gpustack.url"), token_env, told("gpustack.model"))
    yield from _useless("kubernetes", "selector", ("namespace", "port"), told)
    if told("kubernetes.selector"):
        yield KubernetesDiscovery(
            told("kubernetes.selector"), told("kubernetes.namespace"), told("kubernetes.port")
        )


def _useless(
    section: str, needed: str, others: tuple[str, ...], told: Callable[[str], str]
) -> Iterator[Clash]:
    """Keys of a section without the one that switches it on."""
    given = [one for one in others if told(f"{section}.{one}")]
    if given and not told(f"{section}.{needed}"):
        yield Clash(
            (f"discovery.{section}.{given[0]}",),
            f"is set without discovery.{section}.{needed}, so nothing is looked for",
            f"set discovery.{section}.{needed} too",
        )


def without_token(key: str, name: str, environ: Mapping[str, str]) -> Iterator[Clash]:
    """A variable that should hold a token and does not, or holds what no header may hold."""
    token = environ.get(name, "")
    if not name or (token and token.isascii() and token.isprintable()):
        return
    why = "holds what no header may hold" if token else "is not set"
    yield Clash((key,), f"names a variable that {why}", f"export the variable, or remove {key}")
