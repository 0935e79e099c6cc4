"""The facts of an incident as headed tables of text: what a screen, Markdown and HTML share."""

from collections.abc import Iterable

from trioroute.replay.clock import span
from trioroute.replay.incident.block import Block, clock_time
from trioroute.replay.incident.delay_lines import delay_blocks
from trioroute.replay.incident.glossary import words_of
from trioroute.replay.incident.speed_lines import slow_blocks, slow_names, times_blocks
from trioroute.replay.incident.told import Hit, Incident, Retaken
from trioroute.replay.told import Line
from trioroute.replay.words import PIN_ENDS, SPILLS, plural

SHOWN = 200
"""Lines of a timeline that are shown; the data has more."""


FLEET_SHOWN = 20
"""Replicas named in the head."""

QUIET = frozenset({"normal", "recovery", "reduced capacity"})
"""Phases in which no client is turned away."""

PREVENTION = "What would have prevented it"


def title_of(told: Incident) -> str:
    length = span(told.to_ms - told.from_ms)
    return f"Incident {told.begin[:19]} to {told.end[:19]} ({length})"


def blocks_of(told: Incident) -> list[Block]:
    made = [_phases(told), *slow_blocks(told), *_cause(told), *_prevention(told), _hit(told)]
    made += [
        *delay_blocks(told),
        *times_blocks(told),
        *_harmed(told),
        _counts(told),
        _rules(told),
        _timeline(told),
    ]
    if told.notes:
        made.insert(0, Block("What the log cannot tell", told.notes))
    return made


def _phases(told: Incident) -> Block:
    rows = tuple(
        (clock_time(one.from_ms), span(one.to_ms - one.from_ms), one.name, one.why)
        for one in told.phases
    )
    return Block("Phases", (), ("from", "lasts", "phase", "why"), rows, ("lasts",))


def _cause(told: Incident) -> list[Block]:
    cause = told.first_cause
    columns = ("time", "row", "what")
    if cause is None:
        but = f", but for what was slow: {', '.join(names)}" if (names := slow_names(told)) else ""
        far = ", as far as this log tells" if told.notes else ""
        said = [f"nothing went wrong with the service in this span{far}{but}"]
        if told.total.refused:
            said.append(f"what was asked for was refused: {_listed(told.refusals)}")
            said += _keys_said(told)
        blocks = [Block("First cause", tuple(said))]
        if told.changes:
            said = [_purpose(told)]
            blocks.append(Block("Changes", tuple(said), columns, _rows(told.changes)))
        return blocks
    where = f" ({cause.place})" if cause.place else ""
    said = [f"{clock_time(cause.at_ms)}{where}: {cause.text}"]
    if not cause.felt:
        said.append("no client was failed, refused or delayed by it, as far as the rows tell")
    evidence = (*columns[:2], "evidence") if cause.evidence else ()
    blocks = [Block("First cause", tuple(said), evidence, _rows(cause.evidence))]
    if cause.also:
        said = ["clients can have felt it too; that it comes of the first cause is not proved"]
        blocks.append(Block("Other trouble", tuple(said), columns, _rows(cause.also)))
    if cause.unfelt:
        said = ["no client felt it, as far as the rows tell"]
        blocks.append(Block("Trouble without harm", tuple(said), columns, _rows(cause.unfelt)))
    if cause.before:
        said = ["came just before it; that it has to do with it is not proved"]
        blocks.append(Block("Before the first cause", tuple(said), columns, _rows(cause.before)))
    return blocks


def _keys_said(told: Incident) -> list[str]:
    if "invalid_api_key" not in told.refusals:
        return []
    said = (
        "API keys are not in the log: which came or went, and by which reload, is in the router's "
        "process log (reload: API keys)"
    )
    return [said]


def _purpose(told: Incident) -> str:
    """Only of a span without trouble is it said that changes made none."""
    names = {one.name for one in told.phases}
    if "restart" in names:
        return "made on purpose; who came while no router ran is not in the log"
    well = not told.total.failed and names <= QUIET
    return f"made on purpose{', and nothing went wrong by them' if well else ''}"


def _prevention(told: Incident) -> list[Block]:
    """Exact for the row that each sentence names; nothing where nothing did harm."""
    cause = told.first_cause
    earlier = cause is not None and cause.kind == "earlier"
    if cause is not None and not cause.felt and told.prevention:
        earlier = False  # the harm is not its
    if not (told.prevention or told.unproved or earlier):
        return []
    said = [one.text for one in told.prevention if one.harm != "pin"]
    if earlier:
        said.insert(0, "the first cause is before the span: ask from an earlier time for it")
    rescued = told.total.rescued
    if rescued and any(one.setting is None for one in told.prevention):
        tried = plural(rescued, "request")
        said.append(
            f"what kept harm small: {tried} of {told.total.retried} tried again elsewhere got an "
            "answer there (RULES 4.6)"
        )
    pins = [one.text for one in told.prevention if one.harm == "pin"]
    if pins:
        said += ["pins were left, by which no request fails:", *pins]
    if told.unproved:
        kinds = plural(told.unproved, "kind")
        said.append(
            f"{kinds} of harm not looked into: too far from a snapshot, or rows are missing"
        )
    columns = ("setting", "decisions", "spills", "would be", "rebinds", "would be", "elsewhere")
    rows = tuple(
        (f"{one.setting}={one.instead}", *(str(count) for count in _taken(one)))
        for one in told.retaken
    )
    if rows:
        one = told.retaken[0]
        why = f" ({one.ended})" if one.ended else ""
        said.append(
            f"decisions from {one.first} to {one.last}{why}, each taken again from its own past; "
            "what would have followed is for --what-if"
        )
    return [Block(PREVENTION, tuple(said), columns if rows else (), rows, columns[1:])]


def _taken(one: Retaken) -> tuple[int, ...]:
    spills, rebinds = (one.spills, one.spills_then), (one.rebinds, one.rebinds_then)
    return one.decisions, *spills, *rebinds, one.elsewhere


def _rows(lines: Iterable[Line]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            clock_time(one.at_ms),
            one.place,
            one.text + (f" (x{one.times})" if one.times > 1 else ""),
        )
        for one in lines
    )


def _hit(told: Incident) -> Block:
    columns = ("requests", "failed", "refused", "retried", "rescued", "delayed")
    rows = [(one.model or "none", one.key or "none", *_numbers(one)) for one in told.hit]
    if len(rows) > 1:
        rows.append(("all", "", *_numbers(told.total)))
    return Block("Who was hit", (), ("model", "key", *columns), tuple(rows), columns)


def _harmed(told: Incident) -> list[Block]:
    if not told.harmed:
        return []
    rows = tuple(
        (
            clock_time(one.at_ms),
            one.request_id,
            one.decision or "none",
            one.session or "none",
            one.got,
        )
        for one in told.harmed
    )
    columns = ("time", "request", "decision", "session", "its client got")
    count = told.total.failed + told.total.refused
    said = (f"the first {len(rows)} of {count}",) if count > len(rows) else ()
    return [Block("Requests that were hit", said, columns, rows)]


def head_of(told: Incident) -> tuple[str, ...]:
    """What a reader elsewhere has to know: the zone of all times, who routed, and to whom."""
    zones = [_zone(told.begin)] + [_zone(told.end)] * (_zone(told.begin) != _zone(told.end))
    said = [f"All times are {', then '.join(zones)}."]
    for one in told.routers:
        release = one.release or "not known (its start is not in the log any more)"
        names = ", ".join(one.replicas[:FLEET_SHOWN])
        more = len(one.replicas) - FLEET_SHOWN
        names += f" and {more} more" if more > 0 else ""
        count = plural(len(one.replicas), "replica")
        said.append(f"Router {one.name}, release {release}, {count}: {names or 'none'}.")
    return tuple(said)


def _zone(iso: str) -> str:
    offset = iso[23:]
    return "UTC" if offset in ("Z", "+00:00") else f"local time, UTC{offset}"


def words_block(told: Incident, blocks: Iterable[Block]) -> list[Block]:
    """The words that the report uses, for who meets them for the first time."""
    texts = [told.sentence]
    for block in blocks:
        texts += [block.title, *block.said, *block.columns]
        texts += [cell for row in block.rows for cell in row]
    found = words_of(texts)
    return [Block("Words", (), ("word", "what it means"), found)] if found else []


def _numbers(one: Hit) -> tuple[str, ...]:
    delayed = "?" if one.delayed is None else str(one.delayed)
    counts = (one.requests, one.failed, one.refused, one.retried, one.rescued)
    return (*map(str, counts), delayed)


def _counts(told: Incident) -> Block:
    parts = (
        ("endings", told.endings),
        ("refusals", told.refusals),
        ("spills", told.spills),
        ("rebinds", told.rebinds),
    )
    rows = tuple((name, _listed(counts)) for name, counts in parts)
    if told.running:
        rows = (*rows[:1], ("running", f"{told.running} when the span ended"), *rows[1:])
    return Block("Counts", _meant(told), ("what", "how many"), rows)


def _meant(told: Incident) -> tuple[str, ...]:
    """What spills and rebinds are, and each of their causes that was counted."""
    said = []
    for what, meaning, counts, words in (
        ("spill", "a request that went elsewhere than its pin said", told.spills, SPILLS),
        ("rebind", "a pin that was moved to another replica", told.rebinds, PIN_ENDS),
    ):
        if counts:
            causes = "; ".join(f"{cause}: {words[cause]}" for cause in counts)
            said.append(f"{what}: {meaning}, by cause ({causes})")
    if told.first_cause is not None:
        said += _keys_said(told)
    return tuple(said)


def _listed(counts: dict[str, int]) -> str:
    if not counts:
        return "none"
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return f"{sum(counts.values())}: " + ", ".join(f"{name} {count}" for name, count in ordered)


def _rules(told: Incident) -> Block:
    rows = tuple((one.rule, str(one.count), one.what, one.first) for one in told.rules)
    if not rows:
        return Block("Rules that acted", ("none",))
    return Block("Rules that acted", (), ("RULES", "times", "what", "first"), rows, ("times",))


def _timeline(told: Incident) -> Block:
    more = told.left_out + max(0, len(told.timeline) - SHOWN)
    said = (f"{plural(more, 'later line')} left out",) if more else ()
    if not told.timeline:
        return Block("Timeline", ("nothing happened to a replica or the router",))
    return Block("Timeline", said, ("time", "row", "what"), _rows(told.timeline[:SHOWN]))
