"""``[discovery.*]``: where replicas are found that no configuration names.

Kept beside the sections: the log holds what was found, not where.
"""

from collections.abc import Callable, Iterator, Mapping

import attrs

from trioroute.settings.addresses import parse_replica_url, url_shown
from trioroute.settings.checks import Clash
from trioroute.settings.keys import KeyInfo
from trioroute.settings.kinds import Kind, text, variable


def _server_url(value: object) -> str:
    return "" if value == "" else parse_replica_url(value)


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
KEYS: tuple[KeyInfo, ...] = (*FILE, *GPUSTACK)


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


DiscoverySetting = FileDiscovery | GpuStackDiscovery


def discovery_of(
    values: Mapping[str, object], environ: Mapping[str, str]
) -> Iterator[DiscoverySetting | Clash]:
    """The sources that these values of ``KEYS`` ask for, and what keeps one from being used."""

    def told(key: str) -> str:
        return str(values.get(f"discovery.{key}", ""))

    if told("file.path"):
        yield FileDiscovery(told("file.path"))
    yield from _useless("gpustack", "url", ("token_env", "model"), told)
    if told("gpustack.url"):
        token_env = told("gpustack.token_env")
        yield from without_token("discovery.gpustack.token_env", token_env, environ)
        yield GpuStackDiscovery(told("gpustack.url"), token_env, told("gpustack.model"))


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
