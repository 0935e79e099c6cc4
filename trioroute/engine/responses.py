"""`/v1/responses`: its events, and the memory that `previous_response_id` looks into. No I/O."""

from collections import OrderedDict
from collections.abc import Sequence as Items
from typing import Any

import attrs
import orjson

from trioroute.engine.bodies import Generation
from trioroute.engine.errors import ApiError
from trioroute.engine.shapes import DONE, Outcome, Usage

MAX_RESPONSES = 1000
"""Responses remembered per replica; the oldest are forgotten (vLLM itself forgets none)."""


@attrs.define
class ResponseMemory:
    """Conversations and answers by response id. Each replica knows its own only, which is why a
    router has to bring a `previous_response_id` back to the replica that made it."""

    _known: OrderedDict[str, tuple[bytes, bytes]] = attrs.field(factory=OrderedDict, init=False)

    def conversation(self, response_id: object) -> bytes:
        """The text up to and with that answer; empty for no id. Raises ApiError 404."""
        return self._find(response_id)[0] if response_id is not None else b""

    def answer(self, response_id: str) -> bytes:
        """The JSON of an earlier answer. Raises ApiError 404."""
        return self._find(response_id)[1]

    def remember(self, response_id: str, conversation: bytes, answer: bytes) -> None:
        """Keeps one answer, and forgets the oldest above the limit."""
        self._known[response_id] = (conversation, answer)
        if len(self._known) > MAX_RESPONSES:
            self._known.popitem(last=False)

    def _find(self, response_id: object) -> tuple[bytes, bytes]:
        found = self._known.get(str(response_id))
        if found is None:
            text = f"Response with id '{response_id}' not found."
            raise ApiError(404, text, "invalid_request_error", "response_id")
        return found


@attrs.define
class ResponseShape:
    """One answer in the form of the Responses API: numbered, named events and no [DONE].

    Its one item is a message, or the call of a function that the client demanded.
    """

    answer_id: str
    created: int
    asked: Generation
    previous_id: str | None
    _number: int = attrs.field(default=0, init=False)
    _said: int = attrs.field(default=0, init=False)

    @property
    def _item_id(self) -> str:
        kind = "msg_" if self.asked.call is None else "fc_"
        return kind + self.answer_id.removeprefix("resp_")

    @property
    def _item_place(self) -> dict[str, Any]:
        return {"item_id": self._item_id, "output_index": 0}

    @property
    def _place(self) -> dict[str, Any]:
        return {"content_index": 0, **self._item_place}

    def greeting(self) -> list[bytes]:
        """created and in_progress, which vLLM sends before it computes."""
        response = self._response("in_progress", [], None)
        return [
            self._event("response.created", {"response": response}),
            self._event("response.in_progress", {"response": response}),
        ]

    def opening(self, usage: Usage) -> list[bytes]:
        """The item begins, and the text part of a message."""
        del usage
        item = self._item("in_progress", "")
        added = self._event("response.output_item.added", {"item": item, "output_index": 0})
        if self.asked.call is not None:
            return [added]
        part = self._part("") | {"logprobs": []}
        return [added, self._event("response.content_part.added", self._place | {"part": part})]

    def token(self, choice: int, text: str, finish_reason: str | None, usage: Usage) -> bytes:
        """A delta of the text or of the arguments; how it ended stands in the last event."""
        del choice, finish_reason, usage
        call = self.asked.call
        if call is None:
            rest = self._place | {"delta": text, "logprobs": []}
            return self._event("response.output_text.delta", rest)
        piece = call.piece(self._said, self.asked.max_tokens)
        self._said += 1
        rest = self._item_place | {"delta": piece}
        return self._event("response.function_call_arguments.delta", rest)

    def closing(self, outcomes: Items[Outcome], usage: Usage) -> list[bytes]:
        """The text and its part, or the arguments, the item and the response are done."""
        item = self._item("completed", outcomes[0].text)
        return [
            *self._said_all(outcomes[0].text),
            self._event("response.output_item.done", {"item": item, "output_index": 0}),
            self._event("response.completed", {"response": self._done(outcomes, usage)}),
        ]

    def _said_all(self, text: str) -> list[bytes]:
        call = self.asked.call
        if call is not None:
            told = {"arguments": call.arguments, "name": call.name}
            return [
                self._event("response.function_call_arguments.done", self._item_place | told),
            ]
        said = self._place | {"text": text, "logprobs": []}
        part = self._place | {"part": self._part(text)}
        return [
            self._event("response.output_text.done", said),
            self._event("response.content_part.done", part),
        ]

    def failed(self, error: ApiError) -> list[bytes]:
        """The error, then [DONE], as of the other OpenAI paths."""
        return [error.event(), DONE]

    def whole(self, outcomes: Items[Outcome], usage: Usage) -> bytes:
        """The response object."""
        return orjson.dumps(self._done(outcomes, usage))

    def _done(self, outcomes: Items[Outcome], usage: Usage) -> dict[str, Any]:
        complete = outcomes[0].finish_reason == "stop" or self.asked.call is not None
        status = "completed" if complete else "incomplete"
        output = [self._item("completed", outcomes[0].text)]
        shown = {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        }
        return self._response(status, output, shown)

    def _response(
        self, status: str, output: list[dict[str, Any]], usage: dict[str, Any] | None
    ) -> dict[str, Any]:
        cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            "id": self.answer_id,
            "created_at": self.created,
            "incomplete_details": cut,
            "instructions": None,
            "metadata": None,
            "model": self.asked.model,
            "object": "response",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "max_output_tokens": self.asked.max_tokens,
            "previous_response_id": self.previous_id,
            "status": status,
            "usage": usage,
        }

    def _item(self, status: str, text: str) -> dict[str, Any]:
        """``text``: what was said by now, of a message."""
        call = self.asked.call
        if call is not None:
            return {
                "arguments": call.arguments if status == "completed" else "",
                "call_id": "call_" + self.answer_id.removeprefix("resp_"),
                "name": call.name,
                "type": "function_call",
                "id": self._item_id,
                "status": status,
            }
        return {
            "id": self._item_id,
            "content": [self._part(text)] if status == "completed" else [],
            "role": "assistant",
            "status": status,
            "type": "message",
        }

    def _part(self, text: str) -> dict[str, Any]:
        return {"annotations": [], "text": text, "type": "output_text", "logprobs": None}

    def _event(self, kind: str, rest: dict[str, Any]) -> bytes:
        data = orjson.dumps(rest | {"sequence_number": self._number, "type": kind})
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)
