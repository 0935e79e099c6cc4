"""A cheap checksum of the state, logged in ``Checked`` and found again by replay.

Replicas and flights are few and summed when asked; pins may be many and keep their own sum. A sum
does not depend on the order of a table, so no order has to be kept for it.
"""

import zlib

from trioroute.projections.state import State


def digest(state: State) -> int:
    """63 bits over everything that decides the future."""
    total = state.pins.digest + len(state.pins.session) + (len(state.pins.prefix) << 20)
    total += len(state.pins.response) << 40
    for name, health in state.health.items():
        total += _sum(
            f"h{name} {health.stage} {health.since_ms} {health.live_since_ms} {health.n} "
            f"{health.until_ms} {health.scrape_failures} {health.request_failures} "
            f"{health.good_scrapes} {health.busy_until_ms} {health.moved_ms} {health.asleep} "
            f"{health.tokens} {health.running} {health.last_good_ms} {health.ejected_ms}"
        )
    for name, gone in state.departed.items():
        total += _sum(f"g{name} {gone.url} {gone.left_ms} {gone.n} {gone.until_ms} {gone.out}")
    for name, replica in state.fleet.replicas.items():
        total += _sum(
            f"f{name} {replica.url} {replica.models} {replica.ordinal} {replica.draining}"
        )
    for name, own in state.load.replicas.items():
        total += _sum(
            f"l{name} {own.own} {own.wlc_m} {own.running} {own.waiting} {own.own_at_scrape} "
            f"{own.read_at_ms}"
        )
    for model, cursor in state.load.cursor.items():
        total += _sum(f"c{model} {cursor}")
    for model, seen in state.load.calibration.items():
        total += _sum(f"b{model} {seen.bytes} {seen.tokens}")
    for number, flight in state.load.flights.items():
        total += _sum(f"d{number} {flight.replica} {flight.weight_m}")
    for name, sent in state.prompts.sent.items():
        total += _sum(
            f"p{name} {len(sent.held)} {sent.held_sum} {sent.room} {sent.owed} {sent.owed_ms} "
            f"{sent.mark} {sent.spent_tokens} {sent.spent_ms} {sent.found} {sent.asked}"
        )
    total += len(state.prompts.parent) << 30
    demand, conversations = state.prompts.demand, state.prompts.conversations
    if state.prompts.sent:
        total += _sum(f"w{demand.requests} {demand.asked} {demand.uncached} {demand.again}")
        total += len(conversations.last) << 10
    for name, counts in conversations.asked.items():
        total += _sum(f"a{name} {sum(counts.values())}")
    for number, promise in state.prompts.promises.items():
        total += _sum(f"o{number} {promise.tokens} {promise.before} {promise.mark}")
    return total & 0x7FFF_FFFF_FFFF_FFFF


def _sum(text: str) -> int:
    data = text.encode()
    return zlib.crc32(data) << 20 ^ zlib.adler32(data)
