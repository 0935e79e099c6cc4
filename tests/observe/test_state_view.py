"""GET /state: the keys of HTTP.md, and what is unknown is null."""

import orjson

from tests.observe.rig import MODEL, T0_MS, Rig, reading
from trioroute.observe import view
from trioroute.policy.commands import Drain, Fail


def replica(rig: Rig, name: str = "a") -> dict[str, object]:
    found = view(rig.state, rig.now_ms, rig.log)["replicas"]
    return next(one for one in found if one["name"] == name)


def test_a_whole_state_in_the_shape_of_the_interface() -> None:
    rig = Rig()
    rig.live("a")
    rig.arrive(prompt_bytes=10_000, session="s", prefix="p")
    rig.scrape(a=reading(3, 1, kv_m=125, own=1))
    rig.now_ms += 1500
    seen = orjson.loads(orjson.dumps(view(rig.state, rig.now_ms, rig.log)))
    assert seen == {
        "at_ms": T0_MS + 1500,
        "router": "r1",
        "position": rig.state.position,
        "durable_position": rig.state.position - 3,
        "log_head": "7:00112233445566778899aabbccddeeff",
        "log_failing": "",
        "ready": True,
        "reason": "",
        "replicas": [
            {
                "name": "a",
                "url": "http://a:8000",
                "models": [MODEL],
                "source": "config",
                "state": "LIVE",
                "running": 3,
                "waiting": 1,
                "in_flight": 1,
                "wlc_in_flight": 2.5,
                "effective_running": 3,
                "effective_waiting": 1,
                "kv_usage": 0.125,
                "last_good_scrape_age_s": 1.5,
                "eject_count": 0,
                "cooldown_s": 0,
                "stalled": False,
            }
        ],
        "pools": [{"model": MODEL, "replicas": 1, "routable": 1, "imbalance": 0}],
        "pins": {"session": 1, "prefix": 1},
        "config": {"digest": "", "applied_at_ms": T0_MS, "restart_needed": []},
        "discovery": {},
        "imbalance_index": 0,
    }


def test_what_was_never_read_is_null() -> None:
    rig = Rig()
    rig.join("a")
    seen = replica(rig)
    unknown = {key for key, value in seen.items() if value is None}
    assert unknown == {"running", "waiting", "kv_usage", "last_good_scrape_age_s"}
    assert seen["state"] == "JOINING"


def test_a_stale_reading_stands_with_its_age() -> None:
    rig = Rig()
    rig.live("a")
    rig.scrape(a=reading(3, 2))
    rig.now_ms += 60_000
    seen = replica(rig)
    assert (seen["running"], seen["waiting"], seen["last_good_scrape_age_s"]) == (3, 2, 60)
    assert (seen["effective_running"], seen["effective_waiting"]) == (0, 0)


def test_a_page_without_load_series_does_not_read_as_zero() -> None:
    rig = Rig()
    rig.join("a")
    rig.scrape(a=reading(None, None))
    assert replica(rig)["running"] is None
    rig.scrape(a=reading(5, 0))
    rig.scrape(a=reading(None, None))
    assert replica(rig)["running"] == 5


def test_ejects_in_a_row_and_the_cooldown_that_is_left() -> None:
    rig = Rig()
    rig.live("a", "b")
    dispatch = rig.arrive()
    rig.handle(Fail, dispatch=dispatch, cause="refused", blame="replica")
    rig.now_ms += 12_000
    seen = replica(rig)
    assert (seen["state"], seen["eject_count"], seen["cooldown_s"]) == ("EJECTED", 1, 18)


def test_the_streak_is_over_after_ten_minutes_live() -> None:
    rig = Rig()
    rig.live("a", "b")
    rig.handle(Fail, dispatch=rig.arrive(), cause="refused", blame="replica")
    for wait_ms in (31_000, 3_000, 16_000):
        rig.now_ms += wait_ms
        rig.scrape(a=reading(), b=reading())
    assert replica(rig)["state"] == "LIVE"
    assert replica(rig)["eject_count"] == 1
    rig.now_ms += 600_000
    assert replica(rig)["eject_count"] == 0


def test_a_replica_whose_tokens_stand_still_is_stalled() -> None:
    rig = Rig()
    rig.live("a")
    for _ in range(22):
        rig.scrape(a=reading(1, 0, tokens=77))
        rig.now_ms += 3000
    assert replica(rig)["stalled"] is True


def test_a_drained_replica_says_so() -> None:
    rig = Rig()
    rig.live("a")
    rig.handle(Drain, replica="a", on=True)
    assert replica(rig)["state"] == "DRAINING"


def test_a_clock_behind_the_log_shows_no_negative_age() -> None:
    rig = Rig()
    rig.live("a")
    seen = view(rig.state, T0_MS - 5000, rig.log)
    assert seen["at_ms"] == T0_MS
    assert seen["replicas"][0]["last_good_scrape_age_s"] == 0


def test_the_dashboard_gets_the_traffic_share_besides() -> None:
    rig = Rig()
    rig.live("a", "b")
    rig.arrive()
    seen = view(rig.state, rig.now_ms, rig.log, with_share=True)
    assert {one["name"]: one["traffic_share"] for one in seen["replicas"]} == {"a": 1, "b": 0}
