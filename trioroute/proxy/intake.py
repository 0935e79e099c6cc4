"""What is asked of a request's body, and the model where the body names none: the router's state.

The body itself is read by ``bodies``, without any state.
"""

import attrs

from trioroute.projections import State
from trioroute.proxy.bodies.facts import Nameless, Question, refused
from trioroute.proxy.body import is_json_type
from trioroute.proxy.headers import RawHeaders, header_value
from trioroute.proxy.paths import Route


@attrs.define(slots=True)
class Intake:
    """One request as it came in; ``secret`` is the key of all digests."""

    state: State
    secret: bytes = attrs.field(repr=False)
    method: str
    route: Route
    headers: RawHeaders
    project: str = ""

    def question(self, model: str | None = None) -> Question:
        """``model`` is that of a request that names none; without it the only one there is."""
        otherwise = model if model is not None else self._only_model()
        settings = self.state.settings
        return Question(self.headers, self.route, self.project, otherwise, settings, self.secret)

    def model_of(self, nameless: Nameless) -> str:
        """For a second question. Raises UnusableBody where nothing tells the model."""
        fleet = self.state.fleet
        found = self._model_that_made(nameless.response)
        if found is None and self.method == "OPTIONS":
            found = next(iter(fleet.pools), None)
        if found is None:
            raise refused("invalid_request", self._unnamed())
        return found

    def _unnamed(self) -> str:
        """A body of another content type is not looked into: its field model names nothing."""
        kind = header_value(self.headers, b"content-type")
        several = "this router serves several models"
        form = kind is not None and kind.lower().startswith(b"multipart/")
        if kind is not None and self.method == "POST" and not form and not is_json_type(kind):
            return (
                f"{several}, and content-type is not JSON ({kind.decode('latin-1')[:100]}), so the "
                "field model was not read: send content-type: application/json"
            )
        return f"{several}: name one in the field model; GET /v1/models lists them"

    def _only_model(self) -> str | None:
        """It is "" while no replica has told its models."""
        pools = self.state.fleet.pools
        if len(pools) > 1:
            return self.state.fleet.only_model()
        return next(iter(pools), "")

    def _model_that_made(self, response: str | None) -> str | None:
        """A model of the replica that made a response: ``/v1/responses/{id}`` names none."""
        held = self.state.pins.response.get(response) if response is not None else None
        replica = self.state.fleet.replicas.get(held.replica) if held is not None else None
        return replica.models[0] if replica is not None and replica.models else None
