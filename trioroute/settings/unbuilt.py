"""Keys that are documented but not built: refused with the reason, never quietly ignored."""

from trioroute.settings.keys import NEVER, KeyInfo
from trioroute.settings.kinds import Kind, duration, table

_DISCOVERY = "replicas come from [[replica]] and the other [discovery.*] sections so far"


def _key(key: str, kind: Kind, default: str, doc: str, reason: str, off: object) -> KeyInfo:
    return KeyInfo(key, kind, default, doc, reason=reason, off=off)


SERVER = (
    _key(
        "server.heartbeat",
        duration(0),
        "0",
        "Time between SSE comments while prefill lasts; 0: none.",
        "nothing is sent to a client before the engine's own first byte",
        0,
    ),
)
DISCOVERY = tuple(
    _key(f"discovery.{name}", table(), "absent", doc, _DISCOVERY, NEVER)
    for name, doc in (("dns", "Replicas from the addresses of a DNS name."),)
)
