"""What a request asks for, read from its path, headers and body: the model, the keys, the size."""

import attrs

from trioroute.policy.blocks import prompt_blocks
from trioroute.policy.keys import digest_key
from trioroute.policy.policies import asks_for_blocks
from trioroute.policy.profile import Profile, profile
from trioroute.projections import State
from trioroute.proxy.body import (
    JsonObject,
    UnusableBody,
    is_json,
    multipart_model,
    plain_body,
    read_json,
)
from trioroute.proxy.errors import RouterError
from trioroute.proxy.headers import RawHeaders
from trioroute.proxy.paths import Route

MODEL_NAME_MAX = 256


@attrs.define(slots=True)
class Intake:
    """One request as it came in; ``secret`` is the key of all digests."""

    state: State
    secret: bytes = attrs.field(repr=False)
    method: str
    route: Route
    headers: RawHeaders
    body: bytes = attrs.field(repr=False)
    project: str = ""
    """Of the API key; it goes before the header, which anybody can send."""
    streams: bool = attrs.field(default=False, init=False)
    """Whether it asks for its answer as an event stream; known once the profile is read."""
    _first: dict[bytes, bytes] = attrs.field(init=False, repr=False)
    """The first value of each header: a dozen names are asked for."""

    def __attrs_post_init__(self) -> None:
        self._first = dict(reversed(self.headers))

    def profile(self) -> Profile:
        """Raises UnusableBody where the request cannot be understood and has to be."""
        parsed = self._parsed_body()
        self.streams = self.route.inference and parsed.get("stream") is True
        pins = self.state.settings.pins
        response = self.route.response_id or parsed.get("previous_response_id")
        digest: str | None = None
        if isinstance(response, str):
            digest = digest_key(self.secret, "response", "", response)
        found = profile(
            parsed,
            self._header,
            model=self._model(parsed, digest),
            project=self.project or self._header(pins.project_header) or "",
            settings=pins,
            secret=self.secret,
            response=digest,
        )
        if not asks_for_blocks(self.state):
            return found
        blocks = prompt_blocks(parsed, model=found.model, secret=self.secret)
        return attrs.evolve(found, blocks=blocks)

    def _parsed_body(self) -> JsonObject:
        json = is_json(self.headers)
        must_be_json = self.route.inference and json
        if not self.body and not must_be_json:
            return {}
        try:
            plain = plain_body(self.headers, self.body, self.state.settings.server.max_body_bytes)
            if json:
                return read_json(plain)
        except UnusableBody:
            if must_be_json or self._several_pools():
                raise
            return {}
        model = multipart_model(self.headers, plain)
        return {} if model is None else {"model": model}

    def _several_pools(self) -> bool:
        fleet = self.state.fleet
        return bool(fleet.pools) and fleet.only_model() is None

    def _model(self, parsed: JsonObject, response: str | None) -> str:
        """The model that names the pool; "" while no replica has told its models."""
        named = self.route.model or parsed.get("model")
        fleet = self.state.fleet
        if named is not None and not isinstance(named, str):
            raise _refused("invalid_request", "model must be a string")
        if named:
            if len(named) > MODEL_NAME_MAX:
                raise _refused("model_not_found", f"no model has over {MODEL_NAME_MAX} characters")
            return self.state.settings.models.aliases.get(named, named)
        if not fleet.pools:
            return ""
        found = fleet.only_model() or self._model_of(response)
        if found is None and self.method == "OPTIONS":
            found = next(iter(fleet.pools))
        if found is None:
            raise _refused(
                "invalid_request",
                "this router serves several models: name one in the field model; "
                "GET /v1/models lists them",
            )
        return found

    def _model_of(self, response: str | None) -> str | None:
        """A model of the replica that made a response: ``/v1/responses/{id}`` names none."""
        held = self.state.pins.response.get(response) if response is not None else None
        replica = self.state.fleet.replicas.get(held.replica) if held is not None else None
        return replica.models[0] if replica is not None and replica.models else None

    def _header(self, name: str) -> str | None:
        """As text, so that a key is the same in a header, in a body and on a command line."""
        value = self._first.get(name.encode("latin-1"))
        if value is None:
            return None
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value.decode("latin-1")


def _refused(code: str, message: str) -> UnusableBody:
    return UnusableBody(RouterError(code, message, "model"))
