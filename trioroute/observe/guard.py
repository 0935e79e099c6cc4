"""Who may talk to the admin port: who has its token, or programs of this machine and its own page.

A browser on this machine also runs pages of strangers. Two tricks let them reach a port on
loopback: a name of theirs that resolves to 127.0.0.1 (DNS rebinding; the Host header gives it
away), and a form or fetch sent blindly from their page (the Origin header gives it away).
"""

import base64
import hmac
import ipaddress
import re

from trioroute.observe.answer import Answer, error, shown

OPEN_PATHS = ("/healthz", "/readyz")
Headers = list[tuple[bytes, bytes]]
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@\s]+)(?::[0-9]{1,5})?")


def refuse(method: str, headers: Headers, token: str = "", path: str = "/") -> Answer | None:
    """The refusal of a stranger, or of a request that may come from his page; None: welcome.

    With a token everybody needs it, but for the two paths of probes, and any name of this port
    will do: a rebound name brings no token. A probe may call the port anything, or nothing as
    HAProxy's do: what those paths tell is no secret.
    """
    hosts = values(headers, b"host")
    if token:
        if path not in OPEN_PATHS and not _has_token(headers, token):
            return error(
                401,
                "invalid_admin_token",
                "the admin port needs its token: Authorization: Bearer TOKEN, or the password of"
                " any user in a browser",
                (b"www-authenticate", b'Basic realm="trioroute", charset="UTF-8"'),
            )
    elif path not in OPEN_PATHS and (len(hosts) != 1 or not _is_loopback(hosts[0])):
        return error(
            403,
            "host_not_allowed",
            f"the admin port answers to names of this machine only, not to"
            f" {shown(', '.join(hosts))}; ask http://127.0.0.1:PORT or http://localhost:PORT",
        )
    if method in ("GET", "HEAD"):
        return None
    origins = values(headers, b"origin")
    sites = values(headers, b"sec-fetch-site")
    same = all([_host_of(origin)] == [host.lower() for host in hosts] for origin in origins)
    if not same or any(site not in ("same-origin", "none") for site in sites):
        return error(
            403,
            "origin_not_allowed",
            f"a page of {shown(', '.join(origins) or 'another site')} may not change this router;"
            " use its own dashboard, or a program that sends no Origin header",
        )
    return None


def _has_token(headers: Headers, token: str) -> bool:
    for value in values(headers, b"authorization"):
        scheme, _, told = value.partition(" ")
        if scheme.lower() == "basic":
            told = _password(told.strip())
        elif scheme.lower() != "bearer":
            continue
        if hmac.compare_digest(told.strip().encode(), token.encode()):
            return True
    return False


def _password(told: str) -> str:
    try:
        return base64.b64decode(told, validate=True).decode("utf-8").partition(":")[2]
    except ValueError:
        return ""


def values(headers: Headers, name: bytes) -> list[str]:
    """All values of a header."""
    return [value.decode("latin-1").strip() for known, value in headers if known.lower() == name]


def _is_loopback(host: str) -> bool:
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match[1].strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _host_of(origin: str) -> str:
    """``host:port`` of an Origin; nothing that equals a Host header for ``null`` and the like."""
    scheme, found, host = origin.lower().partition("://")
    return host if found and scheme in ("http", "https") else "null"
