"""What the rules want to know of a body: a function of the body and of one question, of no state.

So it can run in another process. Whatever it depends on is in the question.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from trioroute.events import MODEL_NAME_MAX, InForce
from trioroute.policy.blocks import prompt_blocks
from trioroute.policy.keys import digest_key
from trioroute.policy.policies import asks_for_blocks
from trioroute.policy.profile import JsonObject, Profile, is_token_ids, profile
from trioroute.proxy.alias import Span, model_spans
from trioroute.proxy.body import (
    TakesLong,
    UnusableBody,
    is_json_type,
    multipart_model,
    plain_body,
    read_json,
)
from trioroute.proxy.errors import RouterError
from trioroute.proxy.headers import RawHeaders
from trioroute.proxy.paths import Route


@attrs.frozen(slots=True)
class Question:
    """One request without its body; ``secret`` is the key of all digests.

    ``project``: of the API key, "" without one; it goes before the header, which anybody can send.
    ``otherwise``: the model of a request that names none; None: there are several.
    """

    headers: RawHeaders
    route: Route
    project: str
    otherwise: str | None
    settings: InForce
    secret: bytes = attrs.field(repr=False)
    first: Mapping[bytes, bytes] = attrs.field(init=False, repr=False, eq=False)
    """The first value of each header: a dozen names are asked for."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "first", dict(reversed(self.headers)))


@attrs.frozen(slots=True)
class Facts:
    """``streams``: the request asks for its answer as an event stream.

    ``spans``: where in the body, inflated, the model's name is to be replaced by its own.
    """

    profile: Profile
    streams: bool
    spans: tuple[Span, ...] = ()


@attrs.frozen(slots=True)
class Nameless:
    """No model is named, and there are several. ``response`` is the digest of the response that is
    followed up: who made it has the model."""

    response: str | None


def read_facts(
    question: Question, body: bytes, plain: bytes | None = None, values_max: int | None = None
) -> Facts | Nameless:
    """``plain``: the body inflated, where that is done already. ``values_max``: None for no bound.

    Raises UnusableBody where the body cannot be understood and has to be; TakesLong.
    """
    parsed, plain = _parsed(question, body, plain, values_max is not None)
    route, settings = question.route, question.settings
    with_blocks = asks_for_blocks(settings)
    if values_max is not None and _is_wide(parsed, values_max, with_blocks):
        raise TakesLong
    response = route.response_id or parsed.get("previous_response_id")
    digest: str | None = None
    if isinstance(response, str):
        digest = digest_key(question.secret, "response", "", response)
    model = _model(question, parsed)
    if model is None:
        return Nameless(digest)

    def header(name: str) -> str | None:
        return _text(question.first.get(name.encode("latin-1")))

    found = profile(
        parsed,
        header,
        model=model,
        project=question.project or header(settings.pins.project_header) or "",
        settings=settings.pins,
        secret=question.secret,
        response=digest,
    )
    if with_blocks:
        blocks = prompt_blocks(parsed, model=model, secret=question.secret)
        found = attrs.evolve(found, blocks=blocks)
    spans: tuple[Span, ...] = ()
    if route.model is None and model in settings.models.aliases.values():
        spans = model_spans(question.headers, plain, parsed)
    return Facts(found, route.inference and parsed.get("stream") is True, spans)


def _is_wide(parsed: JsonObject, values_max: int, with_blocks: bool) -> bool:
    """Token ids do not count where nothing looks at each of them: only blocks are made of them."""
    if with_blocks:
        values_max //= 3  # each is looked at three times
    left: list[Any] = [parsed]
    while left:
        here = left.pop()
        if not with_blocks and is_token_ids(here):
            continue
        values_max -= len(here)
        if values_max < 0:
            return True
        inner = here.values() if type(here) is dict else here
        left += [value for value in inner if type(value) in (list, dict)]
    return False


def _text(value: bytes | None) -> str | None:
    """As text, so that a key is the same in a header, in a body and on a command line."""
    if value is None:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _parsed(
    question: Question, body: bytes, plain: bytes | None, quickly: bool
) -> tuple[JsonObject, bytes]:
    """The body as an object, and what it was parsed from."""
    json = is_json_type(question.first.get(b"content-type"))
    must_be_json = question.route.inference and json
    if not body and not must_be_json:
        return {}, b""
    try:
        if plain is None and b"content-encoding" not in question.first:
            plain = body
        elif plain is None:
            plain = plain_body(question.headers, body, question.settings.server.max_body_bytes)
        if json:
            return read_json(plain, quickly), plain
    except UnusableBody:
        if must_be_json or question.otherwise is None:
            raise
        return {}, b""
    model = multipart_model(question.headers, plain)
    return ({} if model is None else {"model": model}), plain


def _model(question: Question, parsed: JsonObject) -> str | None:
    """The model that names the pool."""
    named = question.route.model or parsed.get("model")
    if named is not None and not isinstance(named, str):
        raise refused("invalid_request", "model must be a string")
    if not named:
        return question.otherwise
    if len(named) > MODEL_NAME_MAX:
        raise refused("model_not_found", f"no model has over {MODEL_NAME_MAX} characters")
    return question.settings.models.aliases.get(named, named)


def refused(code: str, message: str) -> UnusableBody:
    """A refusal that is about the field ``model``."""
    return UnusableBody(RouterError(code, message, "model"))
