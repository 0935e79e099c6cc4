"""The policy ``least-work``: where the least is to do for this request, by all it costs (RULES 9).

Work is counted in prompt tokens. What a replica has of the prompt is known from the router's own
record (``projections.prompts``), so a conversation stays where its blocks are without a pin, and
moves when waiting there would cost more than computing it anew elsewhere. Two things look ahead:
who came to a replica lately comes again, and what a full cache loses is asked for again.
"""

from trioroute.events.words import Reason
from trioroute.policy.candidates import Candidate
from trioroute.policy.commands import Arrive
from trioroute.policy.select import Choice, Weighed, narrow
from trioroute.projections import State
from trioroute.projections.prompts import Demand, Sent, known_depth, tokens_of, uncached

REQUEST_TOKENS = 3000
"""What one request that is present counts: it shares every step until it ends (chosen; half of it
did no better on agents nor chats in simulation)."""

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


def kept_m(sent: Sent) -> int:
    """How much of what is asked there a replica has, in thousandths, that a new token would spoil:
    nothing while its cache has room (RULES 9.3)."""
    return min(999, sent.found * 1000 // sent.asked) if sent.full and sent.asked else 0


def chain_m(demand: Demand, live: int) -> int:
    """What a token that is pushed out costs in the end, in thousandths (RULES 9.3).

    It is asked again as likely as tokens are at all (a), and then pushes out the next one:
    a + a^2 + ... = a / (1 - a); once around the ``live`` conversations it is back.
    """
    once = max(1, demand.asked - demand.again)
    return min(live * 1000, demand.again * 1000 // once)


def _expected(demand: Demand) -> int:
    """What a conversation will bring when it comes again, in tokens (RULES 9.8): the work of a
    mean request, as likely as tokens are found at all."""
    work = demand.uncached // max(1, demand.requests) + REQUEST_TOKENS
    return (demand.asked - demand.uncached) * work // demand.asked


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
    sents = [state.prompts.of(c.name) for c in calm]
    demand, conversations = state.prompts.demand, state.prompts.conversations
    each = _expected(demand)
    kept = [kept_m(sent) for sent in sents]
    least_m = min(kept)
    weighed: list[Weighed] = []
    for c, sent, here_m in zip(calm, sents, kept, strict=True):
        depth = known_depth(sent.held, blocks)
        fresh = uncached(prompt_bytes, depth, bytes_per_token_m) if depth else asked
        promised = sent.owed_at(at_ms) if sent.owed else 0
        # with the requests of other routers, where they are counted (RULES 3)
        present = (c.running_m + c.waiting_m) // 1000 if counted else c.own
        live = conversations.live(c.name, at_ms)
        spoilt_m = chain_m(demand, live) * (here_m - least_m) // (1000 - least_m)
        damage_m = 1000 + spoilt_m + present * DELAYED_M
        if depth and conversations.counted(blocks[depth - 1], c.name, at_ms):
            live -= 1  # the one that asks
        batch, expected = present * REQUEST_TOKENS, live * each
        total = fresh * damage_m // 1000 + promised + batch + expected
        weighed.append(
            Weighed(
                name=c.name,
                cached=asked - fresh,
                uncached=fresh,
                damage_m=damage_m,
                promised=promised,
                present=present,
                batch=batch,
                conversations=live,
                expected=expected,
                total=total,
            )
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
