"""The kinds of value a key can take: each reads a TOML value, or text from outside the file."""

import re
import shlex
from collections.abc import Callable

import attrs

from trioroute.nearest import hint
from trioroute.quantities import (
    BadValue,
    duration_text,
    parse_duration_ms,
    parse_size_bytes,
    parse_thousandths,
    size_text,
    thousandths_text,
)
from trioroute.settings.addresses import parse_address
from trioroute.settings.errors import shown

YEAR_MS = 365 * 86_400_000
_TRUTHS = {"true": True, "yes": True, "on": True, "1": True}
_UNTRUTHS = {"false": False, "no": False, "off": False, "0": False}
_MOST_ITEMS = 256


def _as_is(text: str) -> object:
    return text


@attrs.frozen
class Kind:
    """``parse`` reads what TOML gives and raises BadValue; ``from_text`` turns the text of the
    environment or of the command line into what TOML would have given.

    ``suffix`` is what the unit adds to the field's name in ``events.sections``. ``show`` writes a
    value for an error: nothing, if it may be a secret.
    """

    name: str
    parse: Callable[[object], object]
    from_text: Callable[[str], object] = _as_is
    suffix: str = ""
    show: Callable[[object], str] = shown


def number(least: int, most: int) -> Kind:
    """A whole number; booleans and 3.0 are not."""
    name = f"whole number, {least} to {most}"

    def parse(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            quotes = ", without quotes" if isinstance(value, str) else ""
            raise BadValue("is not a whole number", f"write a {name}{quotes}")
        return _within(value, least, most, str)

    def from_text(text: str) -> object:
        return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text.strip()) else text

    return Kind(name, parse, from_text)


def duration(least_ms: int, most_ms: int = YEAR_MS) -> Kind:
    """A span of time, kept in milliseconds."""

    def parse(value: object) -> int:
        return _within(parse_duration_ms(value), least_ms, most_ms, duration_text)

    name = f"duration, {duration_text(least_ms)} to {duration_text(most_ms)}"
    return Kind(name, parse, suffix="_ms")


def size(least_bytes: int, most_bytes: int) -> Kind:
    """A number of bytes."""

    def parse(value: object) -> int:
        return _within(parse_size_bytes(value), least_bytes, most_bytes, size_text)

    return Kind(f"size, {size_text(least_bytes)} to {size_text(most_bytes)}", parse)


def thousandths(least_m: int, most_m: int) -> Kind:
    """A number with up to three digits after the point, kept in thousandths."""

    def parse(value: object) -> int:
        return _within(parse_thousandths(value), least_m, most_m, thousandths_text)

    name = f"number, {thousandths_text(least_m)} to {thousandths_text(most_m)}"
    return Kind(name, parse, suffix="_m")


def _within(value: int, least: int, most: int, text: Callable[[int], str]) -> int:
    if not least <= value <= most:
        limits = f"{text(least)} to {text(most)}"
        raise BadValue("is out of range", f"write a value from {limits}")
    return value


def truth() -> Kind:
    """A boolean."""

    def parse(value: object) -> bool:
        if not isinstance(value, bool):
            raise BadValue("is neither true nor false", "write true or false, without quotes")
        return value

    def from_text(text: str) -> object:
        return (_TRUTHS | _UNTRUTHS).get(text.strip().lower(), text)

    return Kind("true | false", parse, from_text)


def choice(*words: str) -> Kind:
    """One of ``words``."""

    def parse(value: object) -> str:
        allowed = " or ".join(shown(word) for word in words)
        if not isinstance(value, str):
            raise BadValue("is not a text", f"write {allowed}")
        if value not in words:
            raise BadValue("is not one of the choices", f"write {allowed}{hint(value, words)}")
        return value

    return Kind(" | ".join(words), parse)


def text(*, empty: bool, pattern: str | None = None, says: str = "text") -> Kind:
    """A line of text; ``pattern`` is what all of it must match, ``says`` tells people the same."""
    remedy = f"write a {says}" + (', or "" for none' if empty else "")

    def parse(value: object) -> str:
        if not isinstance(value, str):
            raise BadValue("is not a text", remedy)
        if not value and empty:
            return value
        if not value.strip() or not value.isprintable():
            raise BadValue("is empty" if not value.strip() else "is not one line of text", remedy)
        if pattern is not None and not re.fullmatch(pattern, value):
            raise BadValue("does not have the right form", remedy)
        return value

    return Kind(says + (" or empty" if empty else ""), parse)


def command(place: str) -> Kind:
    """A command line that is split into words without a shell; ``place`` must be in it."""
    remedy = f'write a command with {place} in it, such as "cp {place} /backup/", or "" for none'

    def parse(value: object) -> str:
        if not isinstance(value, str):
            raise BadValue("is not a text", remedy)
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise BadValue(f"cannot be split into words: {error}", remedy) from error
        if words and not any(place in word for word in words[1:]):
            raise BadValue(f"does not say where the path goes ({place})", remedy)
        return value

    return Kind(f"command with {place}", parse)


def texts(item: Kind, *, lower: bool = False) -> Kind:
    """A list of what ``item`` takes, none twice; in the environment separated by commas."""

    def parse(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise BadValue("is not a list", f'write a list of {item.name}s: ["...", "..."]')
        if len(value) > _MOST_ITEMS:
            raise BadValue(f"has more than {_MOST_ITEMS} items", "shorten the list")
        found: list[str] = []
        for raw in value:
            one = str(_item(item, raw))
            one = one.lower() if lower else one
            if one in found:
                raise BadValue(f"names {shown(one)} twice", "remove one of the two")
            found.append(one)
        return tuple(found)

    def from_text(text: str) -> object:
        return [part.strip() for part in text.split(",") if part.strip()]

    return Kind(f"list, each {item.name}", parse, from_text)


def names(item: Kind) -> Kind:
    """A table from what ``item`` takes to what it takes; outside of a file ``a=b,c=d``."""

    def parse(value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise BadValue("is not a table", 'write { "NAME" = "NAME" }')
        if len(value) > _MOST_ITEMS:
            raise BadValue(f"has more than {_MOST_ITEMS} entries", "shorten the table")
        return {str(_item(item, key)): str(_item(item, one)) for key, one in value.items()}

    def from_text(text: str) -> object:
        pairs = [part.partition("=") for part in text.strip(" {}").split(",") if part.strip()]
        return {key.strip(): value.strip() for key, _, value in pairs}

    return Kind(f"table, each {item.name} = {item.name}", parse, from_text)


def _item(item: Kind, raw: object) -> object:
    try:
        return item.parse(raw)
    except BadValue as bad:
        raise BadValue(f"holds {shown(raw)}, which {bad.message}", bad.remedy) from None


def address() -> Kind:
    """``HOST:PORT`` to listen on."""

    def parse(value: object) -> object:
        parse_address(value)
        return value

    return Kind("HOST:PORT", parse)


def file() -> Kind:
    """The path of a file, or empty. Whether it can be read is checked on load, not here: a log's
    settings must be readable where the file is not."""
    plain = text(empty=True, says="path of a file")

    def parse(value: object) -> object:
        if isinstance(value, str) and ("\n" in value or "-----BEGIN" in value):
            raise BadValue("is not a path", "write the path of a PEM file, not its text")
        return plain.parse(value)

    return Kind("path of a file or empty", parse)


def variable() -> Kind:
    """The name of an environment variable, or empty. What does not look like one in capitals may
    be the secret itself and is not shown."""

    def parse(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)?", value):
            raise BadValue(
                "is not the name of an environment variable",
                "put the secret into a variable and write the variable's name",
            )
        return value

    def show(value: object) -> str:
        looks_like_one = isinstance(value, str) and re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", value)
        return shown(value) if looks_like_one else ""

    return Kind("name of an environment variable or empty", parse, show=show)


def table() -> Kind:
    """A table, or a list of tables, of which only emptiness matters. It may hold secrets, and so
    may a text that stands where a table should: nothing of it is shown."""

    def parse(value: object) -> object:
        if not isinstance(value, dict | list | tuple):
            raise BadValue("is not a table", "write a table")
        return value

    return Kind("table", parse, show=lambda _: "")
