"""The names that a log knows, for who mistyped one: replicas, routers, models, requests, sessions.

A look is bounded, however long the log is: what a snapshot tells, rows of few kinds, the last rows,
and the index, in which a name that is one slip away is found wherever it is.
"""

from collections.abc import Callable, Collection, Iterable

from eventlog.errors import LogDamaged
from trioroute.events import Dispatched, Event, Refused, ReplicaJoined
from trioroute.nearest import hint, nearest, slips
from trioroute.policy.keys import digest_key
from trioroute.projections import State
from trioroute.replay.read import CannotRead, Source, router_of
from trioroute.row_index import indexed_with, request_word, searched, session_word

LAST_ROWS = 20_000
"""So many rows at the end of the log are looked at for what they name."""

ALIKE_MAX = 1000
"""So many names, the newest, are compared sign by sign."""

DIGESTS_MAX = 40_000
"""Digests that are made to find a session by a raw key that is nearly right."""

NEARLY = 0.8
"""How much alike made-up ids have to be: those of requests and sessions."""


def states_near_end(source: Source) -> dict[str, State]:
    """Of each router, by its stream, the state that the newest snapshot tells; without one none."""
    return source.fold_before(source.reader.head().seq + 1).states


def routers_of(source: Source) -> list[str]:
    """Those of the newest snapshot and of the last rows."""
    found = dict.fromkeys(states_near_end(source))
    end = source.reader.head().seq
    for record in source.kept(max(0, end - ALIKE_MAX), end, lambda _: None):
        found[record.stream] = None
    return [router_of(stream) for stream in found]


def replicas_now(source: Source) -> set[str]:
    """Those of the newest snapshot: a look at all rows takes seconds."""
    return {name for state in states_near_end(source).values() for name in state.fleet.replicas}


def replicas_ever(source: Source) -> dict[str, None]:
    """All that the rows tell of, and those that were there before the first row, as far as a
    snapshot tells it."""
    oldest, end = source.reader.read(0, 1), source.reader.head().seq
    found: dict[str, None] = {}
    if oldest and oldest[0].seq > 1:
        for state in source.fold_before(oldest[0].seq).states.values():
            found.update(dict.fromkeys(state.fleet.replicas))
    for record in searched(source.reader, ("ReplicaJoined",), ("{",), 0, end):
        event = source.event(record)
        if isinstance(event, ReplicaJoined):
            found[event.replica] = None
    return found


def known_for_sure(source: Source) -> bool:
    """Whether ``replicas_ever`` tells all: nothing before the first row is unknown."""
    oldest = source.reader.read(0, 1)
    return not oldest or oldest[0].seq == 1 or bool(source.fold_before(oldest[0].seq).states)


def models_near_end(source: Source) -> dict[str, None]:
    found: dict[str, None] = {}
    for state in states_near_end(source).values():
        found.update(state.fleet.seen_models)
    return found


def request_hint(source: Source, request_id: str) -> str:
    """The nearest request, or where none was found."""
    near = near_request(source, request_id)
    return _searched(source, "request") if near is None else f"; did you mean {near!r}?"


def near_request(source: Source, request_id: str) -> str | None:
    found = _newest(source, lambda event: getattr(event, "request_id", None))
    near = nearest(request_id, list(found)[:ALIKE_MAX], NEARLY)
    meant = dict.fromkeys(slips(request_id))
    if near is None:
        near = next((one for one in meant if one in found), None)
    if near is None:
        words = {request_word(one): one for one in meant}
        near = _indexed(source, words, lambda event: getattr(event, "request_id", None))
    return near


def session_hint(
    source: Source, key: str, secret: bytes | None, models: Iterable[str], of: str = ""
) -> str:
    """The nearest session, by its digest or, where the secret is there, by its raw key; or where
    none was found. ``of`` is what stands before a name."""
    near = near_session(source, key, secret, models)
    if near is None:
        return _searched(source, "session")
    return f"; did you mean {f'{of}{near}' if of else repr(near)}?"


def name_hint(
    source: Source, name: str, secret: bytes | None, models: Iterable[str], *, whole: bool
) -> str:
    """The nearest request, else the nearest session, of a text that may mean either, or where none
    was found; ``whole`` False: that the look was not of all rows is said elsewhere."""
    near = near_request(source, name)
    if near is None:
        near = near_session(source, name, secret, models)
    if near is not None:
        return f"; did you mean {near!r}?"
    return _searched(source, "request or session") if whole else ""


def near_session(
    source: Source, key: str, secret: bytes | None, models: Iterable[str]
) -> str | None:
    """By a digest, or by a raw key where the secret is there."""
    found = _newest(source, lambda event: getattr(event, "session", None))
    near = nearest(key, list(found)[:ALIKE_MAX], NEARLY)
    if near is None and secret is not None:
        raw = _digests(secret, list(models), key)
        near = next((raw[one] for one in raw if one in found), None)
        if near is None:
            words = {session_word(one): one for one in raw}
            digest = _indexed(source, words, lambda event: getattr(event, "session", None))
            near = None if digest is None else raw.get(digest)
    return near


def _digests(secret: bytes, models: Collection[str], key: str) -> dict[str, str]:
    """By its digest, each key that may have been meant."""
    made: dict[str, str] = {}
    for one in slips(key):
        if len(made) >= DIGESTS_MAX:
            break
        for model in models:
            made[digest_key(secret, "session", model, one)] = one
    return made


def _newest(source: Source, name_of: Callable[[Event | None], str | None]) -> dict[str, None]:
    """The names in the last rows, the newest first."""
    end = source.reader.head().seq
    rows = searched(source.reader, ("Dispatched", "Refused"), ("{",), max(0, end - LAST_ROWS), end)
    names = dict[str, None]()
    for record in reversed(list(rows)):
        name = name_of(source.event(record))
        if name is not None:
            names.setdefault(name, None)
    return names


def _indexed(
    source: Source, words: dict[bytes, str], name_of: Callable[[Event | None], str | None]
) -> str | None:
    """The newest name that one of ``words`` stands for in the rows of the index."""
    wanted = set(words.values())
    try:
        for record in indexed_with(source.reader, source.index, words):
            event = source.event(record) if record.kind in ("Dispatched", "Refused") else None
            name = name_of(event) if isinstance(event, Dispatched | Refused) else None
            if name in wanted:
                return name
    except (LogDamaged, CannotRead):
        return None  # a hint is worth no failure
    return None


def _searched(source: Source, sort: str) -> str:
    end = source.reader.head().seq
    if end <= LAST_ROWS:
        return f"; no {sort} of the log has a name like it"
    index = " and, with one sign otherwise, in the index" if source.index is not None else ""
    return f"; no {sort} has a name like it in the last {LAST_ROWS:,} rows{index}"


def listed(
    sort: str, names: Collection[str], name: str, most: int = 20, cutoff: float = 0.6
) -> str:
    """``its models are a, b``: the nearest is named, and of very many the first are."""
    if not names:
        return ""
    known = ", ".join(list(names)[:most])
    more = len(names) - most
    return (
        f"{sort} {known}{f' and {more} more' if more > 0 else ''}{hint(name, names, cutoff=cutoff)}"
    )
