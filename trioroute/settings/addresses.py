"""Where to listen and where replicas are: ``HOST:PORT`` and URLs, checked before they are used."""

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from trioroute.quantities import BadValue
from trioroute.settings.errors import shown

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_ADDRESS_REMEDY = 'write HOST:PORT, such as "127.0.0.1:8080", "0.0.0.0:8080" or "[::1]:8080"'
_URL_REMEDY = 'write a URL such as "http://10.0.0.1:8000"'
DEFAULT_PORTS = {"http": 80, "https": 443}


def parse_address(value: object) -> tuple[str, int]:
    """Host (without brackets) and port of ``HOST:PORT`` or ``[IPV6]:PORT``. Port 0: any free one.

    Raises BadValue, also for a bare port: which interfaces are opened is to be said, not guessed.
    """
    if not isinstance(value, str):
        raise BadValue("is not an address", _ADDRESS_REMEDY)
    host, colon, port = value.strip().rpartition(":")
    if not colon or not host:
        raise BadValue("has no host or no port", _ADDRESS_REMEDY)
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
        raise BadValue("has a port that is not between 0 and 65535", _ADDRESS_REMEDY)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if not _is_ipv6(host):
            raise BadValue("has no IPv6 address between its brackets", _ADDRESS_REMEDY)
    elif ":" in host:
        raise BadValue("has an IPv6 address without brackets", _ADDRESS_REMEDY)
    elif not is_host(host):
        raise BadValue("has a host that is neither a name nor an address", _ADDRESS_REMEDY)
    return host, int(port)


def is_host(host: str) -> bool:
    """A DNS name or an IPv4 address; what looks like an IPv4 address must be one."""
    if not _HOST.fullmatch(host):
        return False
    if re.fullmatch(r"[0-9.]+", host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            return False
    return True


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``. Of names only ``localhost`` is believed."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_replica_url(value: object) -> str:
    """The URL of a replica: http or https, host, optional port, optional path prefix.

    Scheme and host come back in lower case, a trailing slash is dropped. User-info, query and
    fragment are refused without being shown, as they may hold a secret. Raises BadValue.
    """
    if not isinstance(value, str) or not value:
        raise BadValue("is not a URL", _URL_REMEDY)
    if not value.isascii() or not value.isprintable() or " " in value:
        raise BadValue("holds a blank or a character that no URL may hold", _URL_REMEDY)
    parts, host, port = _split(value)
    path = parts.path.rstrip("/")
    if path.endswith("/v1"):
        remedy = f"leave /v1 off: {shown(value.rstrip('/').removesuffix('/v1'))}"
        raise BadValue("ends in /v1, which the router adds itself", remedy)
    if not _PREFIX.fullmatch(path) or any(part in {".", ".."} for part in path.split("/")):
        raise BadValue("has a path that is not a plain prefix", _URL_REMEDY)
    where = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{where}{'' if port is None else f':{port}'}{path}"


def url_shown(value: object) -> str:
    """A URL for an error; empty if any part of it may be a secret."""
    return shown(value) if isinstance(value, str) and not set("@?#") & set(value) else ""


def _split(value: str) -> tuple[SplitResult, str, int | None]:
    if "@" in value:
        raise BadValue(
            "holds user-info (or an @), not shown here",
            "leave it out and name a variable in api_key_env instead",
        )
    if "?" in value or "#" in value:
        raise BadValue("holds a query or a fragment, not shown here", _URL_REMEDY)
    try:
        parts = urlsplit(value)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise BadValue("has a host or a port that cannot be read", _URL_REMEDY) from None
    if parts.scheme not in DEFAULT_PORTS or "://" not in value:
        raise BadValue("does not start with http:// or https://", _URL_REMEDY)
    if port == 0 or not (_is_ipv6(host) if ":" in host else is_host(host)):
        raise BadValue("has a host or a port that cannot be read", _URL_REMEDY)
    return parts, host, port


def host_and_port(url: str) -> str:
    """``host:port`` of a URL that ``parse_replica_url`` returned: a replica's default name."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    where = f"[{host}]" if ":" in host else host
    return f"{where}:{parts.port or DEFAULT_PORTS[parts.scheme]}"


def same_place(url: str) -> tuple[str, str, str]:
    """What two URLs share when they mean the same server, the default port spelt out."""
    parts = urlsplit(url)
    return parts.scheme, host_and_port(url), parts.path
