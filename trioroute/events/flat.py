"""Flat facts: of numbers, texts, closed words and lists of them, each read and written in one step.

Most rows of a log are such facts, and making, writing and reading them is a good part of what an
event costs. So they are structs of msgspec, not attrs classes: it makes one in a third of the
time, writes it in half, and looks at keys, types and words while it parses. It makes no rule and
words no error: what it does not take, the strict way of codec.py judges.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
from msgspec import NODEFAULT, Meta, MsgspecError, Struct, to_builtins
from msgspec.json import Decoder, Encoder
from msgspec.structs import astuple
from msgspec.structs import fields as struct_fields

Int = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A number of a row. JSON has it whole, and so has SQLite."""


class Flat(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A flat fact; ``class Live(Flat, frozen=True, kw_only=True)`` makes one."""


NotFlat = MsgspecError
"""What a reader raises for a body that is not of its kind."""

as_plain: Callable[[Any], dict[str, Any]] = to_builtins
"""The body of a flat fact as nested dicts and lists: without fields that hold their default."""

as_row: Callable[[Any], tuple[Any, ...]] = astuple
"""The values of its fields, in their order."""

written: Callable[[Any], bytes] = Encoder().encode
"""Its body, without fields that hold the very object which is their default. Integers of any size
are written, so whoever logs it looks at ``as_row`` before."""

_PLAIN = (str, bool, type(None))
_UNIONS = (Union, type(int | None))


def flat_reader(cls: type[Flat]) -> Callable[[bytes], Any]:
    """A function from a body to a fact of that class; it raises NotFlat."""
    return Decoder(cls).decode


def defaults_of(cls: type) -> dict[str, Any]:
    """The fields of an event class in their order, each with its default or ``attrs.NOTHING``."""
    if attrs.has(cls):
        return {field.name: field.default for field in attrs.fields(cls)}
    return {
        field.name: attrs.NOTHING if field.default is NODEFAULT else field.default
        for field in struct_fields(cls)
    }


def strict_form(cls: type[Flat]) -> type:
    """An attrs class with the same fields, which the strict way reads bodies into."""
    kinds = get_type_hints(cls)
    fields = {
        name: attrs.field(type=kinds[name], default=default)
        for name, default in defaults_of(cls).items()
    }
    return attrs.make_class(cls.__name__, fields, kw_only=True)


def of_strict(cls: type[Flat], form: object) -> Any:  # noqa: ANN401 - a fact of whatever class
    """The fact that a body was strictly read into."""
    return cls(**attrs.asdict(form, recurse=False))  # type: ignore[arg-type]  # of strict_form


def is_plain(kind: object) -> bool:
    """Whether JSON has a field's value as it is: a number, a text, one of some words, or none."""
    if isinstance(kind, type):
        return kind is int or kind in _PLAIN
    if get_origin(kind) is Literal:
        return True
    return get_origin(kind) in _UNIONS and all(map(is_plain, get_args(kind)))
