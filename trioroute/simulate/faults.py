"""Trouble on purpose: ``--fault "replica=1,down=60..120"``. Seconds of the run; replicas from 1.

``down=A..B``      the process dies at A (streams are cut, connects refused), is back empty at B
``freeze=A..B``    it stands still; /health and /metrics answer all the same
``slow=F@A..B``    every step takes F times as long; without ``@A..B`` for the whole run
``flap=U/D..E``    up for U, down for D, again and again until E
``drain=A..B``     taken out by an operator at A, put back at B
"""

import re

import attrs

from trioroute.nearest import hint

_SPAN = r"(?P<begin>\d+(?:\.\d+)?)\.\.(?P<end>\d+(?:\.\d+)?)"
_FORMS: dict[str, re.Pattern[str]] = {
    "down": re.compile(_SPAN),
    "freeze": re.compile(_SPAN),
    "drain": re.compile(_SPAN),
    "slow": re.compile(rf"(?P<factor>\d+(?:\.\d+)?)(?:@{_SPAN})?"),
    "flap": re.compile(r"(?P<up>\d+(?:\.\d+)?)/(?P<begin>\d+(?:\.\d+)?)\.\.(?P<end>\d+(?:\.\d+)?)"),
}
_EXAMPLES = "down=60..120, freeze=60..120, slow=3@60..120, flap=10/10..3600 or drain=60..120"

FOREVER_MS = 1 << 50


class BadFault(ValueError):
    """A fault that cannot be meant; the text shows how to write it."""


@attrs.frozen
class Fault:
    """``kind`` holds for ``replica`` (from 1) within each span of milliseconds."""

    replica: int
    kind: str
    spans: tuple[tuple[int, int], ...]
    slow_m: int = 1000


def parse_fault(text: str, replicas: int) -> tuple[Fault, ...]:
    """The faults of one option. Raises BadFault."""
    replica = 0
    faults: list[Fault] = []
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name == "replica":
            if not re.fullmatch(r"\d{1,6}", value) or not 1 <= int(value) <= replicas:
                raise BadFault(f"fault {text!r}: replica={value} must be 1 to {replicas}")
            replica = int(value)
            continue
        form = _FORMS.get(name)
        match = form.fullmatch(value) if form is not None else None
        if match is None:
            near = hint(name, ("replica", *_FORMS)) if form is None else ""
            raise BadFault(f"fault {text!r}: {part!r} is not replica=N, {_EXAMPLES}{near}")
        faults.append(_fault(text, part, replica, name, match))
    if not replica or not faults:
        raise BadFault(f"fault {text!r}: needs replica=N first, and then {_EXAMPLES}")
    if not all(fault.replica for fault in faults):
        raise BadFault(f"fault {text!r}: replica=N comes first")
    return tuple(faults)


def _fault(text: str, part: str, replica: int, name: str, match: re.Match[str]) -> Fault:
    found = {key: float(value) for key, value in match.groupdict().items() if value is not None}
    begin_ms, end_ms = round(found.get("begin", 0) * 1000), FOREVER_MS
    if "end" in found:
        end_ms = round(found["end"] * 1000)
    spans: tuple[tuple[int, int], ...] = ((begin_ms, end_ms),)
    if name == "flap":
        up_ms, down_ms = round(found["up"] * 1000), begin_ms
        if not up_ms or not down_ms:
            raise BadFault(f"fault {text!r}: {part!r} needs more than 0 seconds up and down")
        starts = range(up_ms, end_ms, up_ms + down_ms)
        return Fault(replica, "down", tuple((at, min(end_ms, at + down_ms)) for at in starts))
    if end_ms <= begin_ms:
        raise BadFault(f"fault {text!r}: {part!r} ends before it begins")
    slow_m = round(found.get("factor", 1) * 1000)
    if slow_m < 1:
        raise BadFault(f"fault {text!r}: {part!r} needs a factor above 0")
    return Fault(replica, name, spans, slow_m)
