"""Events to log rows and back, strictly: what does not fit is refused, never coerced.

A row names its kind and schema in columns, never a class path, so classes may move. The table
``KINDS`` is ours and not a cattrs tagged union: those drop the tag silently when the declared type
is lost. Fields that have a default are left out of the body while they hold it.

A kind that was recorded never changes meaning. A change of shape raises its schema number and adds
one pure ``dict -> dict`` step in ``upcast``; the golden row of the old schema stays in the tests.
"""

from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin

import attrs
import orjson
from cattrs import Converter
from cattrs.errors import CattrsError
from cattrs.fns import identity
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from trioroute.events import fleet, health, lifecycle, pins, requests, scrapes, sections
from trioroute.events.upcast import UPCASTS

Event = (
    lifecycle.Started
    | lifecycle.Configured
    | lifecycle.Orphaned
    | lifecycle.Stopped
    | lifecycle.Checked
    | lifecycle.Gap
    | fleet.ReplicaJoined
    | fleet.ReplicaLeft
    | fleet.Draining
    | scrapes.Scraped
    | scrapes.ScrapeFailed
    | requests.Dispatched
    | requests.Failed
    | requests.Released
    | requests.Refused
    | pins.Bound
    | pins.Spilled
    | pins.Rebound
    | pins.Unbound
    | health.Ejected
    | health.Probing
    | health.Live
)


class UnreadableEvent(ValueError):
    """A row this release cannot read: unknown kind, newer schema, or another shape of body."""


@attrs.frozen
class Kind:
    """How one kind is written and read; ``schema`` is what this release writes.

    ``words`` are the fields that take closed words only, ``defaults`` what is left out of a body.
    """

    name: str
    cls: type
    schema: int
    unstructure: Callable[[Any], dict[str, Any]]
    structure: Callable[[Any, Any], Any]
    words: tuple[str, ...]
    defaults: dict[str, Any]


def _strict(kind: type) -> Callable[[object, object], object]:
    def structure(value: object, _: object) -> object:
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, found {value!r}")
        return value

    return structure


def _is_tuple(kind: object) -> bool:
    return get_origin(kind) is tuple


def _strict_tuple(
    kind: object, converter: Converter
) -> Callable[[object, object], tuple[object, ...]]:
    """cattrs alone takes any iterable: a text where a list of names belongs became its letters."""
    inner = get_args(kind)[0]
    hook = converter.get_structure_hook(inner)

    def structure(value: object, _: object) -> tuple[object, ...]:
        if type(value) is not list:
            raise TypeError(f"expected a list, found {value!r}")
        return tuple([hook(each, inner) for each in value])

    return structure


_WRITTEN_AS_THEY_ARE = (int, str, bool, type(None))
_UNIONS = (Union, type(int | None))


def _written_as_it_is(kind: object) -> bool:
    """Whether orjson writes a field without help: a number, a text, one of some words, or none."""
    if isinstance(kind, type):
        return kind in _WRITTEN_AS_THEY_ARE
    if get_origin(kind) is Literal:
        return True
    parts = get_args(kind)
    return get_origin(kind) in _UNIONS and all(_written_as_it_is(part) for part in parts)


def _converter() -> Converter:
    converter = Converter(detailed_validation=False, unstruct_collection_overrides={tuple: list})
    # A call for each such field would be half of the time an event takes to be written.
    converter.register_unstructure_hook_factory(_written_as_it_is)(lambda _: identity)
    for primitive in (int, str, bool):
        converter.register_structure_hook(primitive, _strict(primitive))
    converter.register_structure_hook_factory(_is_tuple)(_strict_tuple)
    for cls in (*_section_classes(), scrapes.Reading):
        _register(converter, cls, omit=cls is scrapes.Reading)
    return converter


def _section_classes() -> tuple[type, ...]:
    inner = (sections.Slack,)
    outer = tuple(field.type for field in attrs.fields(sections.InForce) if field.type is not None)
    return (*inner, *outer, sections.InForce)


def _register(converter: Converter, cls: type, *, omit: bool) -> tuple[Any, Any]:
    unstructure: Any = make_dict_unstructure_fn(cls, converter, _cattrs_omit_if_default=omit)
    structure: Any = make_dict_structure_fn(
        cls, converter, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=False
    )
    converter.register_unstructure_hook(cls, unstructure)
    converter.register_structure_hook(cls, structure)
    return unstructure, structure


def _table() -> dict[str, Kind]:
    converter = _converter()
    kinds: dict[str, Kind] = {}
    for cls in Event.__args__:
        unstructure, structure = _register(converter, cls, omit=True)
        schema = len(UPCASTS.get(cls.__name__, ())) + 1
        words = tuple(field.name for field in attrs.fields(cls) if "Literal" in str(field.type))
        defaults = {
            field.name: field.default
            for field in attrs.fields(cls)
            if field.default is not attrs.NOTHING
        }
        kinds[cls.__name__] = Kind(
            cls.__name__, cls, schema, unstructure, structure, words, defaults
        )
    return kinds


KINDS: dict[str, Kind] = _table()
_GOOD_FORMS: set[tuple[object, ...]] = set()
_FORMS_MAX = 10_000
_BY_CLASS: dict[type, Kind] = {kind.cls: kind for kind in KINDS.values()}


def plain_settings(settings: sections.InForce) -> dict[str, Any]:
    """The settings as a body of ``Configured`` holds them."""
    plain: dict[str, Any] = KINDS["Configured"].unstructure(lifecycle.Configured(settings=settings))
    return plain


def settings_of(plain: dict[str, Any]) -> sections.InForce:
    """The reverse of ``plain_settings``, as strict as ``decode``. Raises ValueError."""
    try:
        configured: lifecycle.Configured = KINDS["Configured"].structure(
            plain, lifecycle.Configured
        )
    except (TypeError, KeyError, AttributeError, CattrsError) as error:
        raise ValueError(f"these are no settings: {error!r}") from error
    return configured.settings


def kind_of(event: Event) -> Kind:
    """How this event is written: its name and the schema of its body."""
    return _BY_CLASS[type(event)]


def encode(event: Event) -> bytes:
    """The body of a row: compact JSON.

    Raises TypeError for a value JSON cannot hold (an integer beyond 64 bits, a lone surrogate).
    """
    return orjson.dumps(_BY_CLASS[type(event)].unstructure(event))


def decode(kind: str, schema: int, body: bytes) -> Event:
    """The event of a row, of whatever earlier schema. Raises UnreadableEvent."""
    known = KINDS.get(kind)
    if known is None or not 1 <= schema <= known.schema:
        raise UnreadableEvent(_why_not(kind, schema))
    try:
        fields = orjson.loads(body)
        form = _form(known, schema, fields)
        if form in _GOOD_FORMS:
            # What known.cls(**fields) makes, in a quarter of its time: the fields are its dict.
            event: Event = _new(known.cls)
            _set(event, "__dict__", {**known.defaults, **fields} if known.defaults else fields)
            return event
        for step in UPCASTS.get(kind, ())[schema - 1 :]:
            fields = step(fields)
        event = known.structure(fields, known.cls)
    except (ValueError, TypeError, KeyError, AttributeError, CattrsError) as error:
        # AttributeError: cattrs' answer where an object was expected and another value stands
        raise UnreadableEvent(f"{kind} has an unreadable body: {error!r}") from error
    if list not in form and dict not in form and len(_GOOD_FORMS) < _FORMS_MAX:
        _GOOD_FORMS.add(form)
    return event


def flat_fields(kind: str, schema: int, body: bytes) -> dict[str, Any] | None:
    """The fields of a body as they stand there, without those left out: a third of what ``decode``
    takes, for who counts rows. None if no body of that form was decoded before: then decode it."""
    known = KINDS.get(kind)
    try:
        fields: dict[str, Any] = orjson.loads(body)
        good = known is not None and _form(known, schema, fields) in _GOOD_FORMS
    except (ValueError, TypeError, AttributeError):
        return None
    return fields if good else None


def _form(known: Kind, schema: int, fields: dict[str, Any]) -> tuple[object, ...]:
    """All that strict structuring looks at in a flat body: its keys, the types of its values, and
    its closed words. A body of a form that was good once is good: most of a fold is in this. One
    that holds a list or an object is structured each time.
    """
    types = map(type, fields.values())
    return (known.name, schema, *fields, *types, *map(fields.get, known.words))


def _why_not(kind: str, schema: int) -> str:
    known = KINDS.get(kind)
    if known is None:
        return f"unknown event kind {kind!r}: written by a newer trioroute"
    return (
        f"{kind} has schema {schema}, this release knows up to {known.schema}: written by a newer "
        "trioroute"
    )


_new: Callable[[type], Any] = object.__new__
_set = object.__setattr__
