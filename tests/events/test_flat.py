"""Flat bodies are read by a fast way in: it takes nothing that the strict way refuses."""

from typing import Any

import orjson
import pytest

from tests.events.samples import SAMPLES
from trioroute import events as e
from trioroute.events.codec import KINDS, Kind, decode_strictly
from trioroute.events.flat import Flat, NotFlat, as_row, flat_reader

FLAT = [event for event in SAMPLES if e.kind_of(event).read is not None]
VALUES = (
    *(b"0", b"-0", b"7", b"-1", b"01", b"1.0", b"1e2", b"1e400", b"NaN", b"true", b"false"),
    *(b"null", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808"),
    *(b"18446744073709551615", b"18446744073709551616", b"-9223372036854775809"),
    *(b'""', b'"7"', b'"none"', b'"\\u006eone"', b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\xff"'),
    *(b'"a\nb"', b'"\xed\xa0\x80"', b'"\xc3\xa9"', b"[]", b"[1]", b'["a"]', b'["a",1]', b"[[]]"),
    *(b"{}", b'{"a":1}', b"", b"7,", b'7,"surprise":1'),
)
"""What may stand for a value in a damaged or foreign body; the last two change the object too."""


def answer(read: Any, *arguments: object) -> object:
    """The event with the types of its values, or the words of the refusal."""
    try:
        event = read(*arguments)
    except e.UnreadableEvent as error:
        return str(error)
    return event, [type(value) for value in as_row(event)]


def both_ways(kind: Kind, body: bytes) -> None:
    fast = answer(e.decode, kind.name, kind.schema, body)
    assert fast == answer(decode_strictly, kind, kind.schema, body), body


def fields_of(event: e.Event) -> dict[str, Any]:
    return dict(zip(e.kind_of(event).fields, as_row(event), strict=True))


def written(fields: dict[str, bytes]) -> bytes:
    pairs = [orjson.dumps(name) + b":" + value for name, value in fields.items()]
    return b"{" + b",".join(pairs) + b"}"


@pytest.mark.parametrize("event", FLAT, ids=lambda event: type(event).__name__)
def test_whatever_stands_in_a_field_is_judged_as_the_strict_way_judges_it(event: e.Event) -> None:
    kind = e.kind_of(event)
    fields = {name: orjson.dumps(value) for name, value in fields_of(event).items()}
    both_ways(kind, written(fields))
    for name in fields:
        for value in VALUES:
            both_ways(kind, written({**fields, name: value}))
            both_ways(kind, written({**fields, name: value})[:-1] + b"," + written(fields)[1:])
        both_ways(kind, written({key: value for key, value in fields.items() if key != name}))
        both_ways(kind, written({name: fields[name], **fields}).replace(b":", b" : "))
    for tail in (b"", b"{", b"[]", b" ", written(fields) + b" x", written(fields) + b"\n"):
        both_ways(kind, tail)


@pytest.mark.parametrize("event", FLAT, ids=lambda event: type(event).__name__)
def test_a_body_is_what_the_strict_way_writes(event: e.Event) -> None:
    kind = e.kind_of(event)
    defaults = kind.fields
    told = {name: it for name, it in fields_of(event).items() if it != defaults[name]}
    assert e.encode(event) == orjson.dumps(told) == orjson.dumps(kind.unstructure(event))
    again = e.decode(kind.name, kind.schema, e.encode(event))
    assert e.encode(again) == e.encode(event)
    with pytest.raises(AttributeError):
        setattr(again, next(iter(defaults)), None)


def test_the_kinds_that_make_up_a_log_are_flat() -> None:
    assert {"Dispatched", "Released", "Failed", "Spilled", "Bound", "Rebound", "Unbound"} <= {
        kind.name for kind in KINDS.values() if kind.read is not None
    }


def test_what_holds_an_object_has_no_fast_way_in() -> None:
    assert not issubclass(e.Scraped, Flat)
    assert not issubclass(e.Configured, Flat)


def test_a_reader_says_no_without_a_word_of_its_own() -> None:
    read = flat_reader(e.Live)
    with pytest.raises(NotFlat):
        read(b"{}")
