"""Keys that are documented but not built: refused with the reason, never quietly ignored."""

from trioroute.settings.keys import NEVER, KeyInfo
from trioroute.settings.kinds import Kind, table

_DISCOVERY = "replicas come from [[replica]] and the other [discovery.*] sections so far"


def _key(key: str, kind: Kind, default: str, doc: str, reason: str, off: object) -> KeyInfo:
    return KeyInfo(key, kind, default, doc, reason=reason, off=off)


DISCOVERY = tuple(
    _key(f"discovery.{name}", table(), "absent", doc, _DISCOVERY, NEVER)
    for name, doc in (("dns", "Replicas from the addresses of a DNS name."),)
)
