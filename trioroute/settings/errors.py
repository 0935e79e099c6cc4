"""What can be wrong with the settings, told so that it can be mended: place, key, value, remedy."""

import json
import re

import attrs

SHOWN_CHARS = 200
_PRIVATE = re.compile(r"//[^/\s]*@|-----BEGIN")


@attrs.frozen
class Problem:
    """One thing that is wrong. ``str()`` is one line.

    ``place`` is the file, the environment variable or ``command line``. ``value`` is as a user
    would write it, and empty where it is missing or might be a secret.
    """

    place: str
    key: str
    value: str
    message: str
    remedy: str

    def __str__(self) -> str:
        told = " = ".join(part for part in (self.key, self.value) if part)
        return ": ".join(part for part in (self.place, told, self.message) if part) + (
            f"; {self.remedy}" if self.remedy else ""
        )


class SettingsError(Exception):
    """The settings cannot be used. ``problems`` holds everything found, not only the first."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def shown(value: object) -> str:
    """``value`` as TOML would write it, on one line, cut at 200 characters: a path is told whole.

    What may hold a secret is not opened: tables, URLs with user-info, the text of a PEM file.
    """
    text = _written(value)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 3] + "..."


def _written(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            if _PRIVATE.search(value):
                return '"..."'
            return json.dumps(value[: SHOWN_CHARS * 2], ensure_ascii=False)
        case int() if value.bit_length() > 128:
            return "a number of more than 128 bits"  # Python refuses to print very long ones
        case list() | tuple():
            return f"[{', '.join(_written(item) for item in value[:20])}]"
        case dict():
            return "{...}" if value else "{}"
        case _:
            return str(value)
