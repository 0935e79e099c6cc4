"""Request bodies: checked as vLLM checks them, and turned into prompts. No I/O."""

from typing import Any, cast

import attrs
import orjson

from trioroute.engine import errors
from trioroute.engine.settings import EngineSettings
from trioroute.engine.tokens import BYTES_PER_TOKEN, count_tokens
from trioroute.engine.tools import ToolCall, demanded_call

Body = dict[str, Any]


@attrs.frozen
class Generation:
    """What a client asked for. `finish_reason` is length if it set a limit, else stop."""

    model: str
    prompts: tuple[bytes, ...]
    max_tokens: int
    finish_reason: str
    stream: bool
    include_usage: bool
    continuous_usage: bool
    call: ToolCall | None = None
    """Of a tool, in place of text."""


def parse_body(raw: bytes | bytearray, content_type: str) -> Body:
    """The JSON object of a request; raises ApiError with vLLM's words."""
    if content_type.split(";", 1)[0].strip().lower() != "application/json":
        text = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
        raise errors.ApiError(400, text, "Bad Request")
    if not raw:
        raise errors.invalid("missing", "body", "Field required", "None")
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        where = f"body.{error.pos}"
        message = f"JSON decode error: {error.msg}"
        raise errors.invalid("json_invalid", where, message, "<dict of 0 items>") from None
    if not isinstance(body, dict):
        message = "Input should be a valid dictionary or object to extract fields from"
        got = f"<{type(body).__name__}>"
        raise errors.invalid("model_attributes_type", "body", message, got)
    return body


def parse_model(body: Body, settings: EngineSettings) -> str:
    """The model asked for; a missing one is accepted, as in vLLM, and is the first."""
    model = body.get("model") or settings.models[0]
    if not isinstance(model, str):
        raise errors.invalid("string_type", "body.model", "Input should be a string", repr(model))
    if model not in settings.models:
        raise errors.unknown_model(model, settings.models)
    return model


def parse_chat(body: Body, settings: EngineSettings) -> Generation:
    """`/v1/chat/completions`: the prompt is the tools, then the messages' contents, joined."""
    if "messages" not in body:
        raise errors.missing("messages", body)
    prompt = tools_text(body) + messages_text(body["messages"], "body.messages")
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    asked = _generation(body, settings, (prompt,), limit, "max_tokens")
    return attrs.evolve(asked, call=demanded_call(body))


def parse_message(body: Body, settings: EngineSettings) -> Generation:
    """`/v1/messages`: a limit is demanded there, so only one below the usual answer cuts it."""
    if "max_tokens" not in body:
        raise errors.missing("max_tokens", body)
    limit = body["max_tokens"]
    if isinstance(limit, int) and settings.answer_tokens <= limit <= settings.max_model_len:
        limit = None
    asked = _generation(body, settings, (message_prompt(body),), limit, "max_tokens")
    return attrs.evolve(asked, call=demanded_call(body))


def message_prompt(body: Body) -> bytes:
    """The tools, the system prompt and the messages' contents, joined."""
    if "messages" not in body:
        raise errors.missing("messages", body)
    system = _message_text({"content": body.get("system")})
    return tools_text(body) + system + messages_text(body["messages"], "body.messages")


def parse_completion(body: Body, settings: EngineSettings) -> Generation:
    """`/v1/completions`: a text, a list of texts, token ids, or a list of token id lists."""
    if body.get("prompt") is None:
        raise errors.missing("prompt", body)
    prompts = texts(body["prompt"], "body.prompt")
    return _generation(body, settings, prompts, body.get("max_tokens"), "max_tokens")


def parse_response(body: Body, settings: EngineSettings, earlier: bytes) -> Generation:
    """`/v1/responses`: the earlier conversation, the instructions and the input, joined."""
    if body.get("input") is None:
        raise errors.missing("input", body)
    given = body["input"]
    new = given.encode() if isinstance(given, str) else messages_text(given, "body.input")
    instructions = str(body.get("instructions") or "").encode()
    prompt = tools_text(body) + instructions + earlier + new
    limit = body.get("max_output_tokens")
    asked = _generation(body, settings, (prompt,), limit, "max_output_tokens")
    return attrs.evolve(asked, call=demanded_call(body))


def messages_text(messages: object, where: str) -> bytes:
    """The contents of a list of messages, in order."""
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        got = f"<{type(messages).__name__}>"
        raise errors.invalid("list_type", where, "Input should be a list of objects", got)
    return b"".join(_message_text(cast("Body", message)) for message in messages)


def _message_text(message: Body) -> bytes:
    parts = message.get("content")
    if isinstance(parts, str):
        text = parts.encode()
    elif isinstance(parts, list):
        text = b"".join(
            str(part["text"]).encode()
            if isinstance(part, dict) and "text" in part
            else orjson.dumps(part)
            for part in parts
        )
    else:  # an assistant's tool call has no content, a function's output has another name
        text = b"" if parts is None else orjson.dumps(parts)
    for key in ("tool_calls", "arguments", "output"):
        if message.get(key):
            text += orjson.dumps(message[key])
    return text


def tools_text(body: Body) -> bytes:
    """The tools come first in the usual chat templates, so they are part of the shared prefix."""
    return orjson.dumps(body["tools"]) if body.get("tools") else b""


def texts(given: object, where: str) -> tuple[bytes, ...]:
    """One or several prompts, as texts or token ids."""
    if isinstance(given, str):
        return (given.encode(),)
    if isinstance(given, list) and given:
        if all(isinstance(one, int) for one in given):
            return (b"".join(_token_bytes(one) for one in given),)
        if all(isinstance(one, str) for one in given):
            return tuple(one.encode() for one in given)
        if all(isinstance(one, list) and one for one in given):
            return tuple(texts(one, where)[0] for one in given)
    got = f"<{type(given).__name__}>"
    raise errors.invalid("string_type", where, "Input should be a text or token ids", got)


def _token_bytes(token: int) -> bytes:
    return (token & 0xFFFFFFFF).to_bytes(BYTES_PER_TOKEN)


def _generation(
    body: Body, settings: EngineSettings, prompts: tuple[bytes, ...], limit: object, param: str
) -> Generation:
    _check_temperature(body.get("temperature"))
    model = parse_model(body, settings)
    longest = max(count_tokens(prompt) for prompt in prompts)
    room = settings.max_model_len - longest
    if room < 1:
        raise errors.too_long(longest, settings.max_model_len)
    options = body.get("stream_options")
    options = options if isinstance(options, dict) else {}
    return Generation(
        model=model,
        prompts=prompts,
        max_tokens=_answer_tokens(limit, param, settings, room),
        finish_reason="stop" if limit is None else "length",
        stream=body.get("stream") is True,
        include_usage=options.get("include_usage") is True,
        continuous_usage=options.get("continuous_usage_stats") is True,
    )


def _answer_tokens(limit: object, param: str, settings: EngineSettings, room: int) -> int:
    if limit is None:
        return min(settings.answer_tokens, room)
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise errors.invalid("int_type", f"body.{param}", "Input should be an integer", repr(limit))
    if limit < 1:
        raise errors.bad_value(param, limit, f"{param} must be at least 1, got {limit}.")
    if limit > settings.max_model_len:
        text = (
            f"{param}={limit} cannot be greater than max_model_len={settings.max_model_len}. "
            "Please request fewer output tokens."
        )
        raise errors.bad_value(param, limit, text)
    return min(limit, room)


def _check_temperature(value: object) -> None:
    if isinstance(value, int | float) and not 0 <= value <= 2:
        text = f"temperature must be in [0, 2], got {float(value)}."
        raise errors.bad_value("temperature", value, text)
