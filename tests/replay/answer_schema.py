"""The JSON Schema of the answers of ``replay --json``, made from the classes that they are.

``python -m tests.replay.answer_schema`` writes it to the file that is delivered.
"""

import json
import types
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import attrs

from trioroute.policy import explain
from trioroute.replay import compare, refused, requested, told
from trioroute.replay.incident import told as incident

FILE = Path(told.__file__).with_name("answers.schema.json")
CLASSES: dict[str, type] = {
    name: cls
    for module in (told, requested, incident, explain, compare, refused)
    for name, cls in vars(module).items()
    if isinstance(cls, type)
    and attrs.has(cls)
    and name[0] != "_"
    and cls.__module__ == module.__name__
}
PLAIN = {str: "string", int: "integer", bool: "boolean", float: "number", type(None): "null"}
ANSWERS: dict[str, Any] = {
    "--decision": told.Told,
    "--request": tuple[told.Told | refused.RefusedTold, ...],
    "--requests": requested.Listed,
    "--session": told.SessionTold,
    "--replica": told.ReplicaTold,
    "--at": tuple[told.Moment, ...],
    "--incident": incident.Incident,
    "--last": tuple[told.DecisionRow, ...],
    "--compare": compare.Compared,
}
"""What each question is answered with; the other answers are told in REPLAY.md, "As data"."""


def schema_of(kind: Any) -> dict[str, Any]:
    """Of one type, as JSON makes of it."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if attrs.has(kind):
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if isinstance(kind, types.UnionType) or (origin is not tuple and type(None) in parts):
        return {"anyOf": [schema_of(part) for part in parts]}
    if origin is tuple:
        if len(parts) == 2 and parts[1] is Ellipsis:
            return {"type": "array", "items": schema_of(parts[0])}
        each = [schema_of(part) for part in parts]
        return {"type": "array", "prefixItems": each, "minItems": len(each)}
    if origin in (list, set, frozenset):
        return {"type": "array", "items": schema_of(parts[0])}
    if origin is Literal:
        return {"enum": list(parts)}
    if kind is dict or origin is not None:  # a mapping; its values may be anything where not said
        rest = schema_of(parts[1]) if len(parts) == 2 else {}
        return {"type": "object", "additionalProperties": rest or True}
    return {}


def object_schema(cls: type) -> dict[str, Any]:
    """Fields may be added in later releases, so others are not refused."""
    hints = get_type_hints(cls)
    fields = [field.name for field in attrs.fields(cls)]
    return {
        "type": "object",
        "required": fields,
        "properties": {name: schema_of(hints[name]) for name in fields},
    }


def answers_schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Answers of trioroute replay --json, by question",
        "type": "object",
        "properties": {question: schema_of(kind) for question, kind in ANSWERS.items()},
        "$defs": {name: object_schema(cls) for name, cls in sorted(CLASSES.items())},
    }


def text() -> str:
    return json.dumps(answers_schema(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
