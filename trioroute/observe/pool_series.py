"""Series of each model's pool: alerts and boards look at these, for all rules hold per pool."""

from collections.abc import Callable

from trioroute.observe.pools import Pool
from trioroute.observe.shapes import Gauge, Scalars, Series
from trioroute.observe.sight import Sight


def _pools(value: Callable[[Pool], float]) -> Callable[[Sight], Scalars]:
    return lambda s: (((pool.model,), value(pool)) for pool in s.pools)


_M = ("model",)
POOLS: tuple[Series, ...] = (
    Gauge(
        "trioroute_pool_replicas",
        "Replicas that list the model; 0 for one that was served once.",
        _M,
        _pools(lambda pool: pool.replicas),
    ),
    Gauge(
        "trioroute_pool_routable_replicas",
        "Those of them that are LIVE or PROBING.",
        _M,
        _pools(lambda pool: pool.routable),
    ),
    Gauge(
        "trioroute_pool_imbalance",
        "Most minus least effective_running of the pool's LIVE replicas, now.",
        _M,
        _pools(lambda pool: pool.imbalance_m / 1000),
    ),
    Gauge(
        "trioroute_pool_in_flight",
        "Requests of this router on the pool's replicas.",
        _M,
        _pools(lambda pool: pool.in_flight),
    ),
    Gauge(
        "trioroute_pool_wlc_in_flight",
        "Their weight.",
        _M,
        _pools(lambda pool: pool.wlc_m / 1000),
    ),
    Gauge(
        "trioroute_pool_largest_share",
        "Part of the pool's dispatches of the last 5 minutes that one replica got, 0 to 1.",
        _M,
        _pools(lambda pool: pool.largest_share),
    ),
)
