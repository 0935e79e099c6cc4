"""Keys that are documented but not built: refused with the reason, never quietly ignored."""

from trioroute.settings.keys import NEVER, KeyInfo
from trioroute.settings.kinds import Kind, duration, size, table, text

_AGE = duration(0)
_SIZE = size(0, 1 << 50)
_WORD = text(empty=True)
_DISCOVERY = "replicas come from [[replica]] and --replica so far"
_NOT_RUN = "closed segments stay where they are; copy them by hand"
_KEPT = "nothing is deleted from the log; watch the disk and archive by hand"


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
LOG = (
    _key("log.retain_age", _AGE, '"14d"', "Age at which a segment is deleted.", _KEPT, NEVER),
    _key("log.retain_bytes", _SIZE, '"20GiB"', "Size at which the oldest goes.", _KEPT, NEVER),
    _key("log.archive", _WORD, '""', "Command run for each closed segment.", _NOT_RUN, ""),
)
DISCOVERY = tuple(
    _key(f"discovery.{name}", table(), "absent", doc, _DISCOVERY, NEVER)
    for name, doc in (
        ("file", "Replicas from a watched file."),
        ("dns", "Replicas from the addresses of a DNS name."),
        ("gpustack", "Replicas from a GPUStack server."),
        ("kubernetes", "Replicas from the pods that match a selector."),
    )
)
