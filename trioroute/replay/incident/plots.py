"""Plots of an incident as inline SVG: no script, no font, no picture from elsewhere."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from trioroute.replay.incident.block import clock_time
from trioroute.replay.incident.lanes import DOWN
from trioroute.replay.incident.told import Incident, TimeStep

WIDTH, LEFT, HEIGHT, LANE = 960, 120, 140, 20
REPLICAS_MAX = 24
"""Replicas that have a colour of their own in plots; the others are one, in grey."""

# The colours of Okabe and Ito: people with any colour vision tell them apart, on white and black.
ORANGE, SKY, GREEN, BLUE = "#e69f00", "#56b4e9", "#009e73", "#0072b2"
VERMILION, PURPLE, GREY, YELLOW = "#d55e00", "#cc79a7", "#8f979f", "#f0e442"
ROSE, PALE, BROWN = "#ffb3c1", "#d5dbe1", "#7f5539"
OLIVE, TAN, LAVENDER, AQUA = "#999933", "#c2a878", "#b39ddb", "#7fcdbb"

STATES = {
    "LIVE": GREEN,
    "PROBING": YELLOW,
    "EJECTED": VERMILION,
    "STALLED": BLUE,
    "DRAINING": OLIVE,
    "ASLEEP": TAN,
    "JOINING": LAVENDER,
    DOWN: PALE,
}
PHASES = {
    "normal": GREEN,
    "eject": VERMILION,
    "reduced capacity": ORANGE,
    "outage": ROSE,
    "flapping": PURPLE,
    "overload": SKY,
    "failing": BROWN,
    "log stalled": GREY,
    "stalled": BLUE,
    "recovery": YELLOW,
    "restart": PALE,
    "died": PALE,
    "standstill": AQUA,
}
"""A phase has the colour of a state only where both mean the same."""

REPLICAS = (SKY, ORANGE, GREEN, PURPLE, VERMILION, YELLOW, BLUE, GREY)
"""Of the plots by replica; beyond eight again, fainter and with dashed lines."""

NAME_MAX = 17

LETTER = 7
"""Width of a letter in a lane: a state is written into what is long enough for it."""

IN_FLIGHT = "In flight by replica (the most in each step)"
_OTHERS = "others"


def plots_of(told: Incident) -> list[tuple[str, str]]:
    """Title and SVG of each plot."""
    names = replicas_of(told)
    return [
        ("Phases and states", _lanes(told)),
        ("Share of traffic", _shares(told, names)),
        (IN_FLIGHT, _lines(told, names)),
        ("Errors", _bars(told, {"failed": VERMILION, "refused": SKY, "retried": YELLOW})),
        ("Spills and rebinds", _bars(told, {"spills": SKY, "rebinds": ORANGE})),
    ]


def replicas_of(told: Incident) -> list[str]:
    """Those with most traffic, or any request in flight, in the configuration's order; more than
    have colours are others."""
    count: dict[str, int] = {}
    for step in told.steps:
        for name, number in step.dispatches.items():
            count[name] = count.get(name, 0) + number
        for name in step.in_flight:
            count.setdefault(name, 0)
    most = sorted(count, key=lambda name: (-count[name], name))[:REPLICAS_MAX]
    order = list(dict.fromkeys(lane.replica for lane in told.lanes))
    return sorted(most, key=lambda name: (order.index(name) if name in order else len(order), name))


def colour(place: int) -> str:
    """A CSS colour; of eight replicas each has another one, of the next eight a fainter one."""
    fill = REPLICAS[place % len(REPLICAS)]
    return fill + ("", "b0", "70")[min(place // len(REPLICAS), 2)]


def _dashes(place: int) -> str:
    return ("", "6 3", "2 3")[min(place // len(REPLICAS), 2)]


def _x(told: Incident, at_ms: int) -> float:
    whole = max(1, told.to_ms - told.from_ms)
    share = min(max(at_ms - told.from_ms, 0), whole) / whole
    return round(LEFT + share * (WIDTH - LEFT - 10), 1)


def _rect(x: float, y: float, width: float, height: float, fill: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" '
        f'fill="{fill}"><title>{escape(title)}</title></rect>'
    )


def _stretch(x: float, y: float, end: float, fill: str, name: str, title: str) -> str:
    """A stretch of a lane, with its name in it where there is room."""
    made = _rect(x, y, end - x, LANE - 4, fill, title)
    if end - x < LETTER * len(name) + 4:
        return made
    return made + f'<text class="in" x="{x + 4:.1f}" y="{y + 12:.1f}">{escape(name)}</text>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def shortened(name: str) -> str:
    """As much of a name as stands beside a lane; the tooltip has all of it."""
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}\N{HORIZONTAL ELLIPSIS}"


TICKS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
TICKS_MAX, END_WIDTH = 7, 150
"""Times along an axis, and the room of those at its ends."""


def _ticks(told: Incident, height: float) -> Iterator[str]:
    """Round times between both ends, each with a line through the plot."""
    whole_s = max(1, (told.to_ms - told.from_ms) // 1000)
    step_ms = next((one for one in TICKS_S if whole_s <= one * TICKS_MAX), TICKS_S[-1]) * 1000
    for at_ms in range(told.from_ms - told.from_ms % step_ms, told.to_ms, step_ms):
        x = _x(told, at_ms)
        if LEFT + END_WIDTH <= x <= WIDTH - 10 - END_WIDTH:
            yield (
                f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{height - 16:.1f}" '
                'stroke="currentColor" stroke-opacity="0.25" stroke-dasharray="1 3"/>'
            )
            yield _text(x, height - 4, clock_time(at_ms)[11:19], "middle")


def _svg(height: float, inner: Iterable[str], told: Incident, label: str) -> str:
    axis = [
        _text(LEFT, height - 4, clock_time(told.from_ms)[:19]),
        _text(WIDTH - 10, height - 4, clock_time(told.to_ms)[:19], "end"),
        *_ticks(told, height),
    ]
    body = "".join((*inner, *axis))
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">'
        f"{body}</svg>"
    )


def _lanes(told: Incident) -> str:
    made = [_text(LEFT - 8, 14, "phase", "end")]
    for phase in told.phases:
        x, end = _x(told, phase.from_ms), _x(told, phase.to_ms)
        title = f"{phase.name} from {clock_time(phase.from_ms)}: {phase.why}"
        made.append(_stretch(x, 2, end, PHASES.get(phase.name, GREY), phase.name, title))
    rows = {name: place for place, name in enumerate(dict.fromkeys(r.replica for r in told.lanes))}
    for name, place in rows.items():
        made.append(_text(LEFT - 8, LANE * (place + 1) + 14, shortened(name), "end"))
    for lane in told.lanes:
        x, end = _x(told, lane.from_ms), _x(told, lane.to_ms)
        y = LANE * (rows[lane.replica] + 1) + 2
        title = f"{lane.replica} {lane.state} from {clock_time(lane.from_ms)}"
        made.append(_stretch(x, y, end, STATES.get(lane.state, GREY), lane.state, title))
    return _svg(LANE * (len(rows) + 1) + 22, made, told, "phases and states as lanes")


def _of(step: TimeStep, values: dict[str, int], names: Sequence[str]) -> list[tuple[str, int]]:
    known = [(name, values.get(name, 0)) for name in names]
    rest = sum(values.values()) - sum(number for _, number in known)
    return [*known, (_OTHERS, rest)] if rest else known


def _shares(told: Incident, names: list[str]) -> str:
    made = []
    for step in told.steps:
        total = sum(step.dispatches.values())
        x, end = _x(told, step.at_ms), _x(told, step.at_ms + told.step_ms)
        y = 0.0
        for place, (name, number) in enumerate(_of(step, step.dispatches, names)):
            if number:
                tall = HEIGHT * number / total
                fill = colour(place) if name in names else GREY
                title = f"{name}: {number} of {total} at {clock_time(step.at_ms)}"
                made.append(_rect(x, y, end - x, tall, fill, title))
                y += tall
    made += [_text(LEFT - 8, 10, "100 %", "end"), _text(LEFT - 8, HEIGHT, "0", "end")]
    return _svg(HEIGHT + 22, made, told, "share of traffic by replica")


def _lines(told: Incident, names: list[str]) -> str:
    most = max((n for step in told.steps for n in step.in_flight.values()), default=0) or 1
    made = []
    for place, name in enumerate(names):
        points = " ".join(
            f"{_x(told, step.at_ms + told.step_ms // 2):.1f},"
            f"{HEIGHT - (HEIGHT - 6) * step.in_flight.get(name, 0) / most:.1f}"
            for step in told.steps
        )
        made.append(
            f'<polyline points="{points}" fill="none" stroke="{colour(place)}" '
            f'stroke-width="1.5" stroke-dasharray="{_dashes(place)}">'
            f"<title>{escape(name)}</title></polyline>"
        )
    made += [_text(LEFT - 8, 10, str(most), "end"), _text(LEFT - 8, HEIGHT, "0", "end")]
    return _svg(HEIGHT + 22, made, told, "requests in flight by replica")


def _bars(told: Incident, fields: dict[str, str]) -> str:
    tops = [sum(getattr(step, name) for name in fields) for step in told.steps]
    most = max(tops, default=0) or 1
    made = []
    for step in told.steps:
        x, end = _x(told, step.at_ms), _x(told, step.at_ms + told.step_ms)
        y = float(HEIGHT)
        for name, fill in fields.items():
            number = getattr(step, name)
            if number:
                tall = (HEIGHT - 6) * number / most
                y -= tall
                title = f"{number} {name} at {clock_time(step.at_ms)}"
                made.append(_rect(x, y, end - x - 0.5, tall, fill, title))
    made += [_text(LEFT - 8, 10, str(most), "end"), _text(LEFT - 8, HEIGHT, "0", "end")]
    for place, (name, fill) in enumerate(fields.items()):
        made.append(_rect(6, 30 + place * 18, 10, 10, fill, name))
        made.append(_text(22, 39 + place * 18, name))
    return _svg(HEIGHT + 22, made, told, ", ".join(fields))
