"""`/v1/messages`: Anthropic's form of the same answers, as vLLM offers it too. No I/O."""

from collections.abc import Sequence as Items
from typing import Any

import attrs
import orjson

from trioroute.engine.bodies import Generation
from trioroute.engine.errors import ApiError
from trioroute.engine.shapes import Outcome, Usage

STOP_REASONS = {"stop": "end_turn", "length": "max_tokens"}


@attrs.define
class MessageShape:
    """One answer as a message: named events that end with message_stop, and no [DONE]."""

    answer_id: str
    asked: Generation
    _said: int = attrs.field(default=0, init=False)

    def greeting(self) -> list[bytes]:
        """Nothing: the first event tells the prompt's tokens."""
        return []

    def opening(self, usage: Usage) -> list[bytes]:
        """The message and its one block begin."""
        message = self._message([], None, attrs.evolve(usage, completion_tokens=0))
        call = self.asked.call
        block = {"type": "text", "text": ""} if call is None else self._tool_use({})
        return [
            _event("message_start", {"message": message}),
            _event("content_block_start", {"index": 0, "content_block": block}),
        ]

    def token(self, choice: int, text: str, finish_reason: str | None, usage: Usage) -> bytes:
        """A delta of the block; how it ended stands in a later event."""
        del choice, finish_reason, usage
        delta = {"type": "text_delta", "text": text}
        if self.asked.call is not None:
            piece = self.asked.call.piece(self._said, self.asked.max_tokens)
            delta = {"type": "input_json_delta", "partial_json": piece}
        self._said += 1
        return _event("content_block_delta", {"index": 0, "delta": delta})

    def closing(self, outcomes: Items[Outcome], usage: Usage) -> list[bytes]:
        """The block, the reason and the message are done."""
        delta = {"stop_reason": self._stop_reason(outcomes[0]), "stop_sequence": None}
        return [
            _event("content_block_stop", {"index": 0}),
            _event("message_delta", {"delta": delta, "usage": _shown(usage)}),
            _event("message_stop", {}),
        ]

    def failed(self, error: ApiError) -> list[bytes]:
        """An event named error."""
        return [error.message_event()]

    def whole(self, outcomes: Items[Outcome], usage: Usage) -> bytes:
        """The message object."""
        outcome, call = outcomes[0], self.asked.call
        block: dict[str, Any] = {"type": "text", "text": outcome.text}
        if call is not None:
            block = self._tool_use(orjson.loads(call.arguments))
        return orjson.dumps(self._message([block], self._stop_reason(outcome), usage))

    def _stop_reason(self, outcome: Outcome) -> str:
        if self.asked.call is not None and outcome.finish_reason in STOP_REASONS:
            return "tool_use"
        return STOP_REASONS.get(outcome.finish_reason, outcome.finish_reason)

    def _tool_use(self, arguments: object) -> dict[str, Any]:
        assert self.asked.call is not None
        name = self.asked.call.name
        return {
            "type": "tool_use",
            "id": f"toolu_{self.answer_id}",
            "name": name,
            "input": arguments,
        }

    def _message(
        self, content: list[dict[str, Any]], stop_reason: str | None, usage: Usage
    ) -> dict[str, Any]:
        return {
            "id": self.answer_id,
            "type": "message",
            "role": "assistant",
            "content": content,
            "model": self.asked.model,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": _shown(usage),
        }


def _shown(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
    }


def _event(kind: str, rest: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind} | rest))
