"""The policy ``least-work``: where the least is to do for this request, by all it costs (RULES 9).

Work is counted in prompt tokens. What a replica has of the prompt is known from the router's own
record (``projections.prompts``), so a conversation stays where its blocks are without a pin, and
moves when waiting there would cost more than computing it anew elsewhere.
"""

from trioroute.events.words import Reason
from trioroute.policy.candidates import Candidate
from trioroute.policy.commands import Arrive
from trioroute.policy.select import Choice, Weighed, narrow
from trioroute.projections import State
from trioroute.projections.prompts import Sent, known_depth, tokens_of, uncached

REQUEST_TOKENS = 3000
"""What one request that is present counts: it shares every step until it ends (chosen; half of it
did no better on agents nor chats in simulation)."""

PUSHED_OUT_MAX_M = 7000
"""Bound of the share of ``damage_m`` that a full cache makes (chosen: see RULES 9.3)."""

DELAYED_M = 150
"""How much of a computed token each request that is present pays too, in thousandths (chosen)."""


def least_work(state: State, arrive: Arrive) -> Choice:
    """The candidate of least work; reads the state and changes nothing."""
    field = narrow(state, arrive)
    if isinstance(field, Choice):
        return field
    calm = _calm(field.free)
    weighed = _weigh(state, calm, arrive)
    least = _least(calm, weighed, state.load.cursor.get(arrive.model, 0))
    won = weighed[least]
    most = max([one.cached for one in weighed])
    reason: Reason = "affinity:prefix" if won.cached and won.cached == most else "load"
    return Choice(
        "chosen",
        won.name,
        reason,
        field.pool,
        field.routable,
        calm,
        calm[least],
        weighed=weighed,
    )


def uncached_at(state: State, arrive: Arrive, choice: Choice) -> int:
    """Estimated prompt tokens that the chosen replica has to compute."""
    for one in choice.weighed:
        if one.name == choice.replica:
            return one.uncached
    depth = state.prompts.of(choice.replica or "").depth(arrive.blocks)
    return uncached(arrive.prompt_bytes, depth, _bytes_per_token_m(state, arrive))


def pushed_out_m(sent: Sent) -> int:
    """A computed token and those it pushes out of a full cache, in thousandths (RULES 9.3).

    What is pushed out is asked for again as likely as tokens are found there at all, and then
    pushes out the next: 1 + h + h^2 + ... = 1 / (1 - h).
    """
    if not sent.full or not sent.asked:
        return 1000
    missed = max(1, sent.asked - sent.found)
    return min(PUSHED_OUT_MAX_M, sent.asked * 1000 // missed)


def _calm(free: list[Candidate]) -> tuple[Candidate, ...]:
    """LIVE and neither busy nor stalled; else all LIVE; else PROBING. A queue is work, no bar."""
    live = [c for c in free if c.standing == "LIVE"]
    return tuple([c for c in live if c.queueing in ("", "queue")] or live or free)


def _weigh(state: State, calm: tuple[Candidate, ...], arrive: Arrive) -> tuple[Weighed, ...]:
    """The sums of all candidates. One loop: at 30 replicas calls are what it costs."""
    bytes_per_token_m = _bytes_per_token_m(state, arrive)
    prompt_bytes, blocks, at_ms = arrive.prompt_bytes, arrive.blocks, arrive.at_ms
    asked = tokens_of(prompt_bytes, bytes_per_token_m)
    counted = state.settings.policy.load == "counted"
    of = state.prompts.of
    weighed: list[Weighed] = []
    for c in calm:
        sent = of(c.name)
        depth = known_depth(sent.held, blocks)
        fresh = uncached(prompt_bytes, depth, bytes_per_token_m) if depth else asked
        promised = sent.owed_at(at_ms) if sent.owed else 0
        # with the requests of other routers, where they are counted (RULES 3)
        present = (c.running_m + c.waiting_m) // 1000 if counted else c.own
        damage_m = pushed_out_m(sent) + present * DELAYED_M
        batch = present * REQUEST_TOKENS
        total = fresh * damage_m // 1000 + promised + batch
        weighed.append(
            Weighed(c.name, asked - fresh, fresh, damage_m, promised, present, batch, total)
        )
    return tuple(weighed)


def _bytes_per_token_m(state: State, arrive: Arrive) -> int:
    return state.load.bytes_per_token_m(arrive.model, state.settings.wlc.bytes_per_token_m)


def _least(calm: tuple[Candidate, ...], weighed: tuple[Weighed, ...], cursor: int) -> int:
    """Where the minimum is; of a tie the fewest present, then the first after the last chosen."""
    total = min([one.total for one in weighed])
    tied = [at for at, one in enumerate(weighed) if one.total == total]
    if len(tied) == 1:
        return tied[0]
    present = min([weighed[at].present for at in tied])
    tied = [at for at in tied if weighed[at].present == present]
    return next((at for at in tied if calm[at].ordinal > cursor), tied[0])
