"""Flat bodies, read in one step: those of numbers, texts, closed words and lists of them.

Most rows of a log are such rows, and most of a fold was in reading them: msgspec looks at keys,
types and words while it parses, in a third of the time that a dict and a look at it took. It makes
no rule and words no error: what it does not take, the strict way of codec.py judges.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs
from msgspec import Meta, MsgspecError, defstruct
from msgspec.json import Decoder
from msgspec.structs import asdict

all_fields: Callable[[Any], dict[str, Any]] = asdict
"""All fields of a body that was read, in their order and with their defaults."""

NotFlat = MsgspecError
"""What a reader raises for a body that is not of its kind."""

_Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_PLAIN = (str, bool, type(None))
_UNIONS = (Union, type(int | None))


def flat_form(cls: type) -> type | None:
    """A class with the fields of the event class ``cls``, which bodies are read into; None for one
    with a field that holds an object.
    """
    try:
        fields = [_field(field) for field in attrs.fields(cls)]
    except TypeError:
        return None
    return defstruct(cls.__name__, fields, kw_only=True, forbid_unknown_fields=True, gc=False)


def flat_reader(form: type) -> Callable[[bytes], Any]:
    """A function from a body to an object of the form, which ``all_fields`` takes; it raises
    NotFlat.
    """
    return Decoder(form).decode


def is_plain(kind: object) -> bool:
    """Whether JSON has a field's value as it is: a number, a text, one of some words, or none."""
    if isinstance(kind, type):
        return kind is int or kind in _PLAIN
    if get_origin(kind) is Literal:
        return True
    return get_origin(kind) in _UNIONS and all(map(is_plain, get_args(kind)))


def _field(field: "attrs.Attribute[Any]") -> tuple[str, Any] | tuple[str, Any, Any]:
    kind = _checked(field.type)
    return (
        (field.name, kind) if field.default is attrs.NOTHING else (field.name, kind, field.default)
    )


def _checked(kind: object) -> object:
    """The type as msgspec is to check it. Raises TypeError for one that is not flat."""
    if get_origin(kind) is tuple:
        return tuple.__class_getitem__((_checked(get_args(kind)[0]), ...))
    if not is_plain(kind):
        raise TypeError(f"{kind} is not flat")
    if get_origin(kind) in _UNIONS:
        return Union.__getitem__(tuple(map(_checked, get_args(kind))))
    return _Int64 if kind is int else kind
