"""One event of each kind, every field filled, in the order of the codec's table."""

from trioroute import events as e

SAMPLES: tuple[e.Event, ...] = (
    e.Started(router="r1", release="0.1.0", rules=1, behind_ms=3_600_000),
    e.Configured(settings=e.InForce()),
    e.Orphaned(dispatches=(17, 19)),
    e.Stopped(cause="SIGTERM", head="510:3f0c2b9e0d5c4b7a8e9f0a1b2c3d4e5f"),
    e.Checked(digest=9_007_199_254_740_993, in_flight=2, session_pins=3, prefix_pins=1),
    e.StoodStill(for_ms=5100),
    e.Gap(lost=12, from_ms=1_700_000_000_000, to_ms=1_700_000_004_000),
    e.ReplicaJoined(replica="gpu1", url="http://10.0.0.1:8000", models=("qwen",), engine="vllm"),
    e.ReplicaLeft(replica="gpu1"),
    e.Draining(replica="gpu1", on=True),
    e.Scraped(
        readings={
            "gpu1": e.Reading(
                running=3,
                waiting=0,
                kv_m=412,
                tokens=99_120,
                asleep=False,
                own=2,
                models=("qwen", "qwen-lora"),
            ),
            "gpu2": e.Reading(
                running=None, waiting=None, kv_m=None, tokens=None, asleep=True, own=0
            ),
        },
        same=("gpu3", "gpu4"),
    ),
    e.ScrapeFailed(replica="gpu1", cause="status", status=502),
    e.Dispatched(
        request_id="req-1",
        model="qwen",
        attempt=2,
        replica="gpu2",
        reason="load",
        weight_m=12_500,
        session="5e551015e551015e",
        prefix="9ef1a9ef1a9ef1a0",
        home="gpu1",
        draw=9_223_372_036_854_775_807,
        policy="soft-sticky",
        prompt_bytes=50_000,
        response="4e5904594e590459",
        tried=("gpu1",),
        earlier=(41,),
    ),
    e.Failed(dispatch=41, cause="status", blame="none", status=503, retry_after_ms=1000),
    e.Released(
        dispatch=42,
        outcome="ok",
        cause="none",
        blame="none",
        status=200,
        ttfb_ms=212,
        duration_ms=9120,
        bytes=40_210,
        prompt_tokens=12_411,
        completion_tokens=733,
        response="4e5904594e590459",
        retry_after_ms=1000,
    ),
    e.Refused(request_id="req-2", code="overloaded", model="qwen"),
    e.Bound(kind="session", key="5e551015e551015e", replica="gpu2", cause="new", dispatch=42),
    e.Spilled(
        kind="prefix",
        key="9ef1a9ef1a9ef1a0",
        replica="gpu1",
        cause="queue",
        to="gpu2",
        count=1,
        dispatch=42,
    ),
    e.Rebound(
        kind="session",
        key="5e551015e551015e",
        replica="gpu2",
        previous="gpu1",
        cause="spills",
        dispatch=42,
    ),
    e.Unbound(kind="prefix", key="9ef1a9ef1a9ef1a0", replica="gpu1", cause="ttl", dispatch=None),
    e.Ejected(replica="gpu1", cause="refused", n=3, until_ms=1_700_000_120_000),
    e.Probing(replica="gpu1"),
    e.Live(replica="gpu1"),
)

OLDER: dict[tuple[str, int], e.Event] = {
    ("Started", 1): e.Started(router="r1", release="0.1.0", rules=1),
    ("Stopped", 1): e.Stopped(cause="SIGTERM"),
}
"""What the golden rows of older schemas are read as, where it is not the sample itself."""
