"""The codec is strict: what does not fit is refused with its reason, never coerced."""

from typing import Any, get_args

import attrs
import orjson
import pytest
from msgspec.structs import replace

from tests.events.samples import SAMPLES
from trioroute import events as e
from trioroute.events import words
from trioroute.events.codec import KINDS
from trioroute.events.flat import Flat
from trioroute.events.upcast import UPCASTS


def body_of(event: e.Event) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(e.encode(event))
    return body


def sample(kind: type[e.Event]) -> e.Event:
    return next(event for event in SAMPLES if type(event) is kind)


def unreadable(kind: str, fields: object, schema: int = 1) -> str:
    with pytest.raises(e.UnreadableEvent) as caught:
        e.decode(kind, schema, orjson.dumps(fields))
    return str(caught.value)


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_a_round_trip_gives_the_same_event(event: e.Event) -> None:
    assert e.decode(type(event).__name__, 1, e.encode(event)) == event


def test_an_unknown_kind_says_who_wrote_it() -> None:
    assert "written by a newer trioroute" in unreadable("Teleported", {})


@pytest.mark.parametrize("schema", [0, -1, 2, 99])
def test_an_unknown_schema_is_refused(schema: int) -> None:
    assert "schema" in unreadable("Live", {"replica": "a"}, schema)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (e.Dispatched, "attempt", "2"),
        (e.Dispatched, "attempt", 2.0),
        (e.Dispatched, "attempt", True),
        (e.Dispatched, "attempt", None),
        (e.Dispatched, "replica", 7),
        (e.Dispatched, "replica", None),
        (e.Dispatched, "session", 7),
        (e.Dispatched, "tried", "gpu1"),
        (e.Dispatched, "tried", [1]),
        (e.Dispatched, "earlier", ["41"]),
        (e.Dispatched, "reason", "affinity"),
        (e.Released, "outcome", "fine"),
        (e.Released, "blame", "nobody"),
        (e.Released, "ttfb_ms", 1.5),
        (e.Released, "status", "200"),
        (e.Failed, "cause", "bad luck"),
        (e.Refused, "code", "no"),
        (e.Draining, "on", 1),
        (e.Draining, "on", "true"),
        (e.Ejected, "until_ms", 1e12),
        (e.Bound, "kind", "project"),
        (e.Spilled, "cause", "ttl"),
        (e.Rebound, "cause", "evicted"),
        (e.Unbound, "cause", "force"),
        (e.Scraped, "same", {"gpu1": 1}),
        (e.Scraped, "readings", []),
        (e.Scraped, "readings", {"gpu1": {"running": 1}}),
        (e.Orphaned, "dispatches", None),
    ],
)
def test_a_value_that_does_not_fit_is_refused(
    kind: type[e.Event], field: str, value: object
) -> None:
    fields = body_of(sample(kind)) | {field: value}
    assert kind.__name__ in unreadable(kind.__name__, fields)


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_an_extra_key_is_refused(event: e.Event) -> None:
    unreadable(type(event).__name__, body_of(event) | {"surprise": 1})


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_a_missing_field_is_refused(event: e.Event) -> None:
    fields = body_of(event)
    for name, default in e.kind_of(event).fields.items():
        if default is attrs.NOTHING:
            unreadable(type(event).__name__, {k: v for k, v in fields.items() if k != name})


@pytest.mark.parametrize("fields", [[], "x", 7, None, [["replica", "a"]]])
def test_a_body_that_is_no_object_is_refused(fields: object) -> None:
    unreadable("Live", fields)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"replica":"a"} x'])
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(e.UnreadableEvent):
        e.decode("Live", 1, body)


@pytest.mark.parametrize(
    "path",
    [("surprise",), ("pins", "surprise"), ("policy", "slack", "surprise"), ("wlc", "unit_tokens")],
)
def test_settings_in_the_log_are_as_strict(path: tuple[str, ...]) -> None:
    fields = body_of(e.Configured(settings=e.InForce()))
    inner = fields["settings"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = "1000"
    unreadable("Configured", fields)


def test_settings_come_back_as_they_went() -> None:
    in_force = attrs.evolve(e.InForce(), pins=attrs.evolve(e.InForce().pins, max=7))
    event = e.Configured(settings=in_force)
    assert e.decode("Configured", 1, e.encode(event)) == event


def test_every_word_of_every_vocabulary_can_be_logged() -> None:
    cases: tuple[tuple[type[e.Event], str, object], ...] = (
        (e.Dispatched, "reason", words.Reason),
        (e.Released, "outcome", words.Outcome),
        (e.Released, "cause", words.Cause),
        (e.Released, "blame", words.Blame),
        (e.Refused, "code", words.RefusalCode),
        (e.Spilled, "cause", words.SpillCause),
        (e.Rebound, "cause", words.RebindCause),
        (e.Unbound, "cause", words.UnbindCause),
    )
    for kind, field, vocabulary in cases:
        for word in get_args(vocabulary):
            flat = sample(kind)
            assert isinstance(flat, Flat)
            event = replace(flat, **{field: word})
            assert e.decode(kind.__name__, 1, e.encode(event)) == event


def test_the_closed_words_are_those_of_the_interface() -> None:
    assert get_args(words.Outcome) == (
        "ok",
        "client_error",
        "upstream_error",
        "upstream_cut",
        "upstream_empty",
        "client_gone",
        "first_byte_timeout",
        "idle_timeout",
        "client_stall",
        "shutdown",
        "unknown",
    )
    assert get_args(words.Blame) == ("replica", "client", "router", "none")
    assert get_args(words.Cause) == (
        *("none", "refused", "dns", "tls", "fin", "reset", "timeout", "protocol"),
        *("status", "error_event", "abort", "cancelled", "shutdown"),
    )


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1])
def test_an_integer_beyond_64_bits_is_refused_when_written(value: int) -> None:
    with pytest.raises(TypeError):
        e.encode(e.Orphaned(dispatches=(value,)))


def test_a_lone_surrogate_is_refused_when_written() -> None:
    with pytest.raises(TypeError):
        e.encode(e.Live(replica="\ud800"))


def test_defaults_are_left_out_and_unknown_stays_unknown() -> None:
    fields = body_of(e.ScrapeFailed(replica="a", cause="timeout"))
    assert fields == {"replica": "a", "cause": "timeout"}
    reading = e.Reading(running=None, waiting=0, kv_m=None, tokens=None, asleep=False, own=0)
    scraped = body_of(e.Scraped(readings={"a": reading}, same=()))
    assert scraped["readings"]["a"]["running"] is None
    assert scraped["readings"]["a"]["waiting"] == 0


def test_events_are_frozen() -> None:
    for event in SAMPLES:
        with pytest.raises(AttributeError):
            event.surprise = 1  # type: ignore[union-attr]  # the point: it must not be possible


def test_an_older_schema_is_lifted_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(fields: dict[str, Any]) -> dict[str, Any]:
        return {"name": fields["gpu"]}

    def rename_again(fields: dict[str, Any]) -> dict[str, Any]:
        return {"replica": fields["name"]}

    monkeypatch.setitem(UPCASTS, "Live", (rename, rename_again))
    monkeypatch.setitem(KINDS, "Live", attrs.evolve(KINDS["Live"], schema=3))
    expected = e.Live(replica="a")
    assert e.decode("Live", 1, b'{"gpu":"a"}') == expected
    assert e.decode("Live", 2, b'{"name":"a"}') == expected
    assert e.decode("Live", 3, b'{"replica":"a"}') == expected
    with pytest.raises(e.UnreadableEvent):
        e.decode("Live", 1, b'{"name":"a"}')
    with pytest.raises(e.UnreadableEvent):
        e.decode("Live", 4, b'{"replica":"a"}')
