"""Events to log rows and back, strictly: what does not fit is refused, never coerced.

A row names its kind and schema in columns, never a class path, so classes may move. The table
``KINDS`` is ours and not a cattrs tagged union: those drop the tag silently when the declared type
is lost. Fields that have a default are left out of the body while they hold it.

A kind that was recorded never changes meaning. A change of shape raises its schema number and adds
one pure ``dict -> dict`` step in ``upcast``; the golden row of the old schema stays in the tests.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, get_args, get_origin

import attrs
import orjson
from cattrs import Converter
from cattrs.errors import CattrsError
from cattrs.fns import identity
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from trioroute.events import fleet, health, lifecycle, pins, requests, scrapes, sections
from trioroute.events.flat import (
    Flat,
    NotFlat,
    as_plain,
    as_row,
    defaults_of,
    flat_reader,
    is_plain,
    of_strict,
    strict_form,
    written,
)
from trioroute.events.upcast import UPCASTS

Event = (
    lifecycle.Started
    | lifecycle.Configured
    | lifecycle.Orphaned
    | lifecycle.Stopped
    | lifecycle.Checked
    | lifecycle.StoodStill
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

    ``read`` is the fast way in for a body of that schema, for flat facts. ``fields`` are those of
    the event in their order, each with its default or ``attrs.NOTHING``.
    """

    name: str
    cls: type
    schema: int
    unstructure: Callable[[Any], dict[str, Any]]
    structure: Callable[[Any, Any], Any]
    read: Callable[[bytes], Any] | None
    fields: dict[str, Any]


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


def _converter() -> Converter:
    converter = Converter(detailed_validation=False, unstruct_collection_overrides={tuple: list})
    # A call for each such field would be half of the time an event takes to be written.
    converter.register_unstructure_hook_factory(is_plain)(lambda _: identity)
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
        if issubclass(cls, Flat):
            unstructure, structure = as_plain, _strictly_flat(converter, cls)
            read = flat_reader(cls)
        else:
            unstructure, structure = _register(converter, cls, omit=True)
            read = None
        name, schema = cls.__name__, len(UPCASTS.get(cls.__name__, ())) + 1
        kinds[name] = Kind(name, cls, schema, unstructure, structure, read, defaults_of(cls))
    return kinds


def _strictly_flat(converter: Converter, cls: type[Flat]) -> Callable[[Any, Any], Any]:
    """Made when it is asked for first: for all kinds it takes some 40 ms of CPU, and most
    processes never meet a body that needs it."""

    @cache
    def way() -> tuple[type, Any]:
        form = strict_form(cls)
        return form, _register(converter, form, omit=True)[1]

    def structure(fields: object, _: object) -> object:
        form, read = way()
        return of_strict(cls, read(fields, form))

    return structure


KINDS: dict[str, Kind] = _table()
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
    if isinstance(event, Flat):
        orjson.dumps(as_row(event))  # for its refusal alone
        return written(event)
    return orjson.dumps(_BY_CLASS[type(event)].unstructure(event))


def decode(kind: str, schema: int, body: bytes) -> Event:
    """The event of a row, of whatever earlier schema. Raises UnreadableEvent."""
    known = KINDS.get(kind)
    if known is not None and schema == known.schema and known.read is not None:
        try:
            event: Event = known.read(body)
        except NotFlat:
            pass  # said properly below
        else:
            return event
    if known is None or not 1 <= schema <= known.schema:
        raise UnreadableEvent(_why_not(kind, schema))
    return decode_strictly(known, schema, body)


def decode_strictly(known: Kind, schema: int, body: bytes) -> Event:
    """What ``decode`` means: it may be faster, and never gives or takes anything else."""
    try:
        fields = orjson.loads(body)
        for step in UPCASTS.get(known.name, ())[schema - 1 :]:
            fields = step(fields)
        event: Event = known.structure(fields, known.cls)
    except (ValueError, TypeError, KeyError, AttributeError, CattrsError) as error:
        # AttributeError: cattrs' answer where an object was expected and another value stands
        raise UnreadableEvent(f"{known.name} has an unreadable body: {error!r}") from error
    return event


NEWER = ": written by a newer trioroute"


def _why_not(kind: str, schema: int) -> str:
    known = KINDS.get(kind)
    if known is not None and schema < 1:
        return f"{kind} has schema {schema}, which no release writes"
    if known is None:
        return f"unknown event kind {kind!r}{NEWER}"
    return f"{kind} has schema {schema}, this release knows up to {known.schema}{NEWER}"
