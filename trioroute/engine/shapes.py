"""How answers look: chat and text completions, whole and as server-sent events. No I/O.

Keys and their order are those captured from vLLM 0.32.0; one event per token, the last token's
event carries the finish_reason.
"""

from collections.abc import Sequence as Items
from typing import Any, Protocol

import attrs
import orjson

from trioroute.engine.bodies import Generation
from trioroute.engine.errors import ApiError
from trioroute.engine.settings import VERSION

DONE = b"data: [DONE]\n\n"
FINGERPRINT = f"vllm-{VERSION}-simulated"


@attrs.frozen
class Usage:
    """Tokens of one request, over all its prompts."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int

    def shown(self) -> dict[str, Any]:
        """OpenAI's usage object."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "completion_tokens": self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


@attrs.frozen
class Outcome:
    """One finished choice."""

    text: str
    finish_reason: str


class Shape(Protocol):
    """One answer's form. All but `whole` return complete server-sent events."""

    def greeting(self) -> list[bytes]:
        """Sent at once, before the model computes anything."""

    def opening(self, usage: Usage) -> list[bytes]:
        """Sent together with the first token."""

    def token(self, choice: int, text: str, finish_reason: str | None, usage: Usage) -> bytes:
        """One token; `finish_reason` with the last one."""

    def closing(self, outcomes: Items[Outcome], usage: Usage) -> list[bytes]:
        """What follows the last token."""

    def failed(self, error: ApiError) -> list[bytes]:
        """The last words of a stream that fails inside its 200."""

    def whole(self, outcomes: Items[Outcome], usage: Usage) -> bytes:
        """The JSON of a non-stream answer."""


@attrs.define
class _CompletionShape:
    """What chat and text completions have in common: ids, usage events, [DONE]."""

    answer_id: str
    created: int
    asked: Generation

    def greeting(self) -> list[bytes]:
        """Nothing: vLLM's first event waits for the first token."""
        return []

    def closing(self, outcomes: Items[Outcome], usage: Usage) -> list[bytes]:
        """The usage event, if it was asked for, then [DONE]."""
        del outcomes  # all of their text is out
        if not self.asked.include_usage:
            return [DONE]
        chunk = {"choices": [], "usage": usage.shown(), "system_fingerprint": FINGERPRINT}
        return [self._event(chunk), DONE]

    def failed(self, error: ApiError) -> list[bytes]:
        """The error, then [DONE]."""
        return [error.event(), DONE]

    def _chunk(self, choice: dict[str, Any], usage: Usage) -> bytes:
        chunk: dict[str, Any] = {"choices": [choice]}
        if self.asked.continuous_usage:
            chunk["usage"] = usage.shown()
        if choice["finish_reason"] is not None and not self.asked.include_usage:
            chunk["system_fingerprint"] = FINGERPRINT
        return self._event(chunk)

    def _event(self, rest: dict[str, Any]) -> bytes:
        return b"data: " + orjson.dumps(self._head(self._stream_object) | rest) + b"\n\n"

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.answer_id,
            "object": kind,
            "created": self.created,
            "model": self.asked.model,
        }

    def _whole(self, kind: str, choices: list[dict[str, Any]], usage: Usage) -> bytes:
        tail = {
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": usage.shown() | {"completion_tokens_details": None},
            "kv_transfer_params": None,
        }
        return orjson.dumps(self._head(kind) | tail)

    @property
    def _stream_object(self) -> str:
        return "text_completion"


@attrs.define
class ChatShape(_CompletionShape):
    """`/v1/chat/completions`."""

    _said: int = attrs.field(default=0, init=False)

    def opening(self, usage: Usage) -> list[bytes]:
        """The role event, and the name of a tool that is called."""
        nothing_yet = attrs.evolve(usage, completion_tokens=0)
        events = [self._delta(0, {"role": "assistant", "content": ""}, None, nothing_yet)]
        if self.asked.call is not None:
            begun = {"index": 0, **self._called("")}
            events.append(self._delta(0, {"tool_calls": [begun]}, None, nothing_yet))
        return events

    def token(self, choice: int, text: str, finish_reason: str | None, usage: Usage) -> bytes:
        """A content event, or one with a piece of a tool's arguments."""
        delta: dict[str, Any] = {"content": text}
        if self.asked.call is not None:
            piece = self.asked.call.piece(self._said, self.asked.max_tokens)
            delta = {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
        self._said += 1
        reason = None if finish_reason is None else self._reason(finish_reason)
        return self._delta(choice, delta, reason, usage)

    def whole(self, outcomes: Items[Outcome], usage: Usage) -> bytes:
        """The chat.completion object."""
        call = self.asked.call
        made = {} if call is None else {"tool_calls": [self._called(call.arguments)]}
        choices = [
            {
                "index": index,
                "message": {
                    "role": "assistant",
                    "content": outcome.text if call is None else None,
                    "refusal": None,
                    "annotations": None,
                    "audio": None,
                    "function_call": None,
                    "reasoning": None,
                    **made,
                },
                "logprobs": None,
                "finish_reason": self._reason(outcome.finish_reason),
                "stop_reason": None,
                "token_ids": None,
            }
            for index, outcome in enumerate(outcomes)
        ]
        return self._whole("chat.completion", choices, usage)

    def _called(self, arguments: str) -> dict[str, Any]:
        assert self.asked.call is not None
        function = {"name": self.asked.call.name, "arguments": arguments}
        return {"id": f"call_{self.answer_id}", "type": "function", "function": function}

    def _reason(self, finish_reason: str) -> str:
        called = self.asked.call is not None and finish_reason in ("stop", "length")
        return "tool_calls" if called else finish_reason

    def _delta(
        self, choice: int, delta: dict[str, Any], finish_reason: str | None, usage: Usage
    ) -> bytes:
        one = {"index": choice, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._chunk(one, usage)

    @property
    def _stream_object(self) -> str:
        return "chat.completion.chunk"


@attrs.define
class TextShape(_CompletionShape):
    """`/v1/completions`; one choice per prompt."""

    def opening(self, usage: Usage) -> list[bytes]:
        """Nothing: texts have no role."""
        del usage
        return []

    def token(self, choice: int, text: str, finish_reason: str | None, usage: Usage) -> bytes:
        """A text event."""
        return self._chunk(self._choice(choice, text, finish_reason), usage)

    def whole(self, outcomes: Items[Outcome], usage: Usage) -> bytes:
        """The text_completion object."""
        choices = [
            self._choice(index, outcome.text, outcome.finish_reason)
            for index, outcome in enumerate(outcomes)
        ]
        return self._whole("text_completion", choices, usage)

    def _choice(self, index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
        return {
            "index": index,
            "text": text,
            "logprobs": None,
            "finish_reason": finish_reason,
            "stop_reason": None,
        }
