"""The engine's paths: vLLM's API, /metrics, and `/faults`."""

import base64
import random
import secrets
import struct
import time
from collections.abc import Awaitable, Callable

import attrs
import orjson
import trio

from trioroute.engine import bodies, errors
from trioroute.engine.access import AccessLog
from trioroute.engine.batch import QueueFullError, Sequence
from trioroute.engine.connection import Exchange
from trioroute.engine.faults import FaultError, Faults, parse_faults
from trioroute.engine.generate import CutShortError, Run, fail_early
from trioroute.engine.loop import StepLoop
from trioroute.engine.messages import MessageShape
from trioroute.engine.metrics import CONTENT_TYPE, BatchCollector, metrics_page
from trioroute.engine.responses import ResponseMemory, ResponseShape
from trioroute.engine.settings import VERSION, EngineSettings
from trioroute.engine.shapes import ChatShape, TextShape
from trioroute.engine.tokens import count_tokens, token_ids

Handler = Callable[[Exchange], Awaitable[None]]
Generator = Callable[[Exchange, Faults], Awaitable[None]]

_EMBEDDING_SIZE = 16


@attrs.define(eq=False)
class Api:
    """Answers one exchange at a time; the state of the replica is in the step loop."""

    settings: EngineSettings
    loop: StepLoop
    collector: BatchCollector
    access: AccessLog
    created: int = attrs.field(factory=lambda: int(time.time()))
    in_flight: int = attrs.field(default=0, init=False)
    _memory: ResponseMemory = attrs.field(factory=ResponseMemory, init=False)
    _routes: dict[str, dict[str, Handler]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """The route table: path, then method."""
        self._routes = {
            "/health": {"GET": _empty},
            "/ping": {"GET": _empty, "POST": _empty},
            "/version": {"GET": self._version},
            "/load": {"GET": self._load},
            "/metrics": {"GET": self._metrics},
            "/faults": {"GET": self._faults, "POST": self._set_faults},
            "/tokenize": {"POST": self._tokenize},
            "/v1/models": {"GET": self._models},
            "/v1/chat/completions": {"POST": self._generation(self._chat)},
            "/v1/completions": {"POST": self._generation(self._completion)},
            "/v1/responses": {"POST": self._generation(self._response)},
            "/v1/messages": {"POST": self._generation(self._message)},
            "/v1/messages/count_tokens": {"POST": self._count_message},
            "/v1/embeddings": {"POST": self._generation(self._embeddings)},
        }

    async def respond(self, exchange: Exchange) -> None:
        """Routes one request; errors become vLLM's bodies."""
        path, method = exchange.request.path, exchange.request.method
        handlers = self._routes.get(path)
        if path.startswith("/v1/responses/"):
            handlers = {"GET": self._earlier_response}
        if handlers is None:
            await exchange.answer(404, b'{"detail":"Not Found"}')
        elif method not in handlers:
            allow = [("allow", ", ".join(handlers))]
            await exchange.answer(405, b'{"detail":"Method Not Allowed"}', headers=allow)
        else:
            try:
                await handlers[method](exchange)
            except errors.ApiError as error:
                await exchange.answer(error.status, _told(exchange, error))

    def _generation(self, generator: Generator) -> Handler:
        """Counts the request for /load and lets the faults strike."""

        async def handle(exchange: Exchange) -> None:
            fault = self.loop.desk.take()
            self.in_flight += 1
            self.access.taken(exchange)
            whole = False
            try:
                await fail_early(exchange, fault)
                await generator(exchange, fault)
                whole = True
            except CutShortError:
                return
            except errors.ApiError as error:
                after = None if fault.status is None else fault.retry_after
                headers = [] if after is None else [("retry-after", f"{after:g}")]
                await exchange.answer(error.status, _told(exchange, error), headers=headers)
                whole = True
            finally:
                self.in_flight -= 1
                self.access.ended(exchange, whole=whole)

        return handle

    async def _chat(self, exchange: Exchange, fault: Faults) -> None:
        asked = bodies.parse_chat(_body(exchange), self.settings)
        shape = ChatShape(_answer_id("chatcmpl", exchange), int(time.time()), asked)
        await Run(exchange, asked, shape, fault, self.loop).answer()

    async def _completion(self, exchange: Exchange, fault: Faults) -> None:
        asked = bodies.parse_completion(_body(exchange), self.settings)
        shape = TextShape(_answer_id("cmpl", exchange), int(time.time()), asked)
        await Run(exchange, asked, shape, fault, self.loop).answer()

    async def _response(self, exchange: Exchange, fault: Faults) -> None:
        body = _body(exchange)
        previous = body.get("previous_response_id")
        earlier = self._memory.conversation(previous)
        asked = bodies.parse_response(body, self.settings, earlier)
        answer_id = f"resp_{secrets.token_hex(8)}"
        shape = ResponseShape(answer_id, int(time.time()), asked, previous)
        run = Run(exchange, asked, shape, fault, self.loop)
        await run.answer()
        if body.get("store") is not False:
            conversation = asked.prompts[0] + run.outcomes[0].text.encode()
            self._memory.remember(answer_id, conversation, shape.whole(run.outcomes, run.usage))

    async def _message(self, exchange: Exchange, fault: Faults) -> None:
        asked = bodies.parse_message(_body(exchange), self.settings)
        shape = MessageShape(_answer_id("chatcmpl", exchange), asked)
        await Run(exchange, asked, shape, fault, self.loop).answer()

    async def _count_message(self, exchange: Exchange) -> None:
        body = _body(exchange)
        bodies.parse_model(body, self.settings)
        tokens = count_tokens(bodies.message_prompt(body))
        await exchange.answer(200, orjson.dumps({"input_tokens": tokens}))

    async def _earlier_response(self, exchange: Exchange) -> None:
        answer_id = exchange.request.path.removeprefix("/v1/responses/")
        await exchange.answer(200, self._memory.answer(answer_id))

    async def _embeddings(self, exchange: Exchange, fault: Faults) -> None:
        del fault  # only those that strike early make sense without a stream
        body = _body(exchange)
        if body.get("input") is None:
            raise errors.missing("input", body)
        model = bodies.parse_model(body, self.settings)
        prompts = bodies.texts(body["input"], "body.input")
        longest = max(count_tokens(prompt) for prompt in prompts)
        if longest > self.settings.max_model_len:
            raise errors.too_long(longest, self.settings.max_model_len)
        sequences = tuple(Sequence(prompt, 0, finish_reason="stop") for prompt in prompts)
        await self.loop.desk.until(lambda faults: not faults.freeze)
        try:
            with self.loop.admitted(sequences) as job:
                while not all(one.done for one in sequences):
                    await job.advance()
        except QueueFullError:
            raise errors.busy() from None
        packed = body.get("encoding_format") == "base64"
        tokens = sum(one.prompt_tokens for one in sequences)
        answer = {
            "id": _answer_id("embd", exchange),
            "object": "list",
            "created": int(time.time()),
            "model": model,
            "data": [
                {"index": index, "object": "embedding", "embedding": _embedding(prompt, packed)}
                for index, prompt in enumerate(prompts)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0},
        }
        await exchange.answer(200, orjson.dumps(answer))

    async def _tokenize(self, exchange: Exchange) -> None:
        body = _body(exchange)
        bodies.parse_model(body, self.settings)
        if "messages" in body:
            text = bodies.messages_text(body["messages"], "body.messages")
        elif isinstance(body.get("prompt"), str):
            text = body["prompt"].encode()
        else:
            raise errors.missing("prompt", body)
        ids = token_ids(text)
        answer = {
            "count": len(ids),
            "max_model_len": self.settings.max_model_len,
            "tokens": ids,
            "token_strs": None,
        }
        await exchange.answer(200, orjson.dumps(answer))

    async def _models(self, exchange: Exchange) -> None:
        data = [
            {
                "id": model,
                "object": "model",
                "created": self.created,
                "owned_by": "vllm",
                "root": model,
                "parent": None,
                "max_model_len": self.settings.max_model_len,
            }
            for model in self.settings.models
        ]
        await exchange.answer(200, orjson.dumps({"object": "list", "data": data}))

    async def _version(self, exchange: Exchange) -> None:
        await exchange.answer(200, orjson.dumps({"version": VERSION}))

    async def _load(self, exchange: Exchange) -> None:
        # As with vLLM's --enable-server-load-tracking; without it vLLM always says 0.
        await exchange.answer(200, orjson.dumps({"server_load": self.in_flight}))

    async def _metrics(self, exchange: Exchange) -> None:
        faults = self.loop.desk.now
        if faults.metrics_delay_ms:
            await trio.sleep(faults.metrics_delay_ms / 1000)
        if faults.metrics_status is not None:
            raise errors.demanded(faults.metrics_status)
        page = metrics_page(self.loop.latencies, self.collector)
        await exchange.answer(200, page, CONTENT_TYPE)

    async def _faults(self, exchange: Exchange) -> None:
        await exchange.answer(200, orjson.dumps(self.loop.desk.now.shown()))

    async def _set_faults(self, exchange: Exchange) -> None:
        try:
            asked = parse_faults(orjson.loads(exchange.request.body))
        except (orjson.JSONDecodeError, FaultError) as error:
            raise errors.ApiError(400, str(error), "FaultError") from None
        await exchange.answer(200, orjson.dumps(self.loop.desk.replace(asked).shown()))


async def _empty(exchange: Exchange) -> None:
    await exchange.answer(200)


def _body(exchange: Exchange) -> bodies.Body:
    content_type = exchange.request.headers.get("content-type", "")
    return bodies.parse_body(exchange.request.body, content_type)


def _told(exchange: Exchange, error: errors.ApiError) -> bytes:
    """The body of an error in the shape that the clients of the path read."""
    of_anthropic = exchange.request.path.startswith("/v1/messages")
    return error.message_body() if of_anthropic else error.body()


def _answer_id(kind: str, exchange: Exchange) -> str:
    given = exchange.request.headers.get("x-request-id")
    return f"{kind}-{given or secrets.token_hex(8)}"


def _embedding(prompt: bytes, packed: bool) -> list[float] | str:
    """Stable numbers for a text; base64 is what the openai client asks for by default."""
    rng = random.Random(prompt)
    numbers = [round(rng.uniform(-1, 1), 6) for _ in range(_EMBEDDING_SIZE)]
    if not packed:
        return numbers
    return base64.b64encode(struct.pack(f"<{_EMBEDDING_SIZE}f", *numbers)).decode()
