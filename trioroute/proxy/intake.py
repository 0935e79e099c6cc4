"""What is asked of a request's body, and the model where the body names none: the router's state.

The body itself is read by ``bodies``, without any state.
"""

import attrs

from trioroute.policy.policies import asks_for_blocks
from trioroute.projections import State
from trioroute.proxy.bodies.facts import Nameless, Question, header_text, refused
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
    """Of the API key; it goes before the header, which anybody can send."""

    def question(self, model: str | None = None) -> Question:
        """``model`` is that of a request that names none; without it the only one there is."""
        settings, route = self.state.settings, self.route
        header = settings.pins.project_header.encode("latin-1")
        return Question(
            self.headers,
            route.inference,
            route.model,
            route.response_id,
            self.project or header_text(header_value(self.headers, header)) or "",
            model if model is not None else self._only_model(),
            settings.models.aliases,
            settings.pins,
            settings.server.max_body_bytes,
            asks_for_blocks(self.state),
            self.secret,
        )

    def model_of(self, nameless: Nameless) -> str:
        """For a second question. Raises UnusableBody where nothing tells the model."""
        fleet = self.state.fleet
        found = self._model_that_made(nameless.response)
        if found is None and self.method == "OPTIONS":
            found = next(iter(fleet.pools), None)
        if found is None:
            raise refused(
                "invalid_request",
                "this router serves several models: name one in the field model; "
                "GET /v1/models lists them",
            )
        return found

    def _only_model(self) -> str | None:
        """It is "" while no replica has told its models."""
        fleet = self.state.fleet
        return fleet.only_model() if fleet.pools else ""

    def _model_that_made(self, response: str | None) -> str | None:
        """A model of the replica that made a response: ``/v1/responses/{id}`` names none."""
        held = self.state.pins.response.get(response) if response is not None else None
        replica = self.state.fleet.replicas.get(held.replica) if held is not None else None
        return replica.models[0] if replica is not None and replica.models else None
