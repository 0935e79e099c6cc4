"""Tool calls that a client demands (`tool_choice`): their arguments fit the tool's schema. No I/O.

A model may answer with text where the choice is its own; where it is not, clients wait for a call.
"""

from collections.abc import Mapping
from typing import Any, cast

import attrs
import orjson

from trioroute.engine import errors

Body = dict[str, Any]

DEPTH_MAX = 8
"""Of the arguments; what a schema demands below that is left out."""


@attrs.frozen
class ToolCall:
    """``arguments``: JSON."""

    name: str
    arguments: str

    def piece(self, at: int, of: int) -> str:
        """What the token ``at`` of so many brings of the arguments."""
        step = -(-len(self.arguments) // of)
        return self.arguments[at * step : (at + 1) * step]


def demanded_call(body: Body) -> ToolCall | None:
    """None where the model may answer with text. Raises ApiError for a tool that is not given.

    In OpenAI's form ("required", or a function by name) or Anthropic's ("any", or a tool by name).
    """
    choice = body.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else choice
    if kind not in ("required", "any", "function", "tool"):
        return None
    schemas = dict(_tool(one) for one in body.get("tools") or () if isinstance(one, dict))
    name: object = next(iter(schemas), None)
    if isinstance(choice, dict) and kind in ("function", "tool"):
        name = (choice.get("function") or choice).get("name")
    if not isinstance(name, str) or name not in schemas:
        text = f"tool_choice demands a tool that is not among the tools given: {name}"
        raise errors.bad_value("tool_choice", choice, text)
    return ToolCall(name, orjson.dumps(_value(schemas[name], DEPTH_MAX)).decode())


def _tool(tool: Body) -> tuple[str, Body]:
    """Its name and the schema of its arguments, in OpenAI's form or Anthropic's."""
    function = tool.get("function")
    if isinstance(function, dict):
        return str(function.get("name")), function.get("parameters") or {}
    return str(tool.get("name")), tool.get("input_schema") or tool.get("parameters") or {}


def _value(schema: object, depth: int) -> object:
    """The least that fits the schema, as far as its type, its constants and what it requires go."""
    if not isinstance(schema, Mapping):
        return {}
    for fixed in ("const", "default"):
        if fixed in schema:
            return schema[fixed]
    if schema.get("enum"):
        return cast("list[object]", schema["enum"])[0]
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object":
        properties = schema.get("properties") or {}
        required = schema.get("required") or () if depth else ()
        return {name: _value(properties.get(name), depth - 1) for name in required}
    if kind == "array":
        least = min(schema.get("minItems") or 0, DEPTH_MAX)
        return [_value(schema.get("items"), depth - 1) for _ in range(least if depth else 0)]
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return {"boolean": True, "null": None}.get(str(kind), "simulated")
