"""Changing the fleet and the configuration through the admin port, over a real server."""

import pytest

from eventlog.errors import JournalFull
from tests.observe.test_admin import House, asked, house
from trioroute.observe import Reloaded

__all__ = ["house"]

GPU = {"name": "gpu9", "url": "http://10.0.0.9:8000"}


async def test_a_replica_is_added_and_removed(house: House) -> None:
    async with asked(house) as client:
        added = await client.post("/replicas?why=more+load", json=GPU)
        assert added.status_code == 201
        assert added.json() == {"replica": "gpu9", "state": "JOINING", "in_flight": 0}
        again = await client.delete("/replicas/gpu9?now")
        assert again.json()["state"] == "LEFT"
        assert "note" not in again.json()
        drained = await client.delete("/replicas/a")
        assert drained.json()["state"] == "DRAINING"
        assert "configuration file still names it" in drained.json()["note"]
    assert house.reasons == ["more load", "", ""]


async def test_a_replica_is_ejected_by_hand(house: House) -> None:
    async with asked(house) as client:
        answer = await client.post("/replicas/a/eject")
        assert answer.json() == {"replica": "a", "state": "EJECTED", "in_flight": 0}
        again = await client.post("/replicas/a/eject")
        assert again.status_code == 200
        assert "note" not in again.json()
        await client.post("/replicas/a/drain")
        back = (await client.post("/replicas/a/undrain")).json()
        assert back["state"] == "EJECTED"
        assert "when its cooldown is over, in 31 s" in back["note"]
        await client.post("/replicas", json=GPU)
        joining = (await client.post("/replicas/gpu9/eject")).json()
        assert joining["note"].startswith("nothing was changed: it is JOINING")
    assert house.rig.state.health["a"].n == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "bad_request"),
        (b"[1]", 400, "bad_request"),
        (b"{", 400, "bad_request"),
        (b'{"name": "x"}', 400, "bad_request"),
        (b'{"name": "a", "url": "http://x"}', 409, "replica_exists"),
    ],
)
async def test_what_cannot_be_added_says_why(
    house: House, body: bytes, status: int, code: str
) -> None:
    position = house.rig.log.position
    async with asked(house) as client:
        answer = await client.post("/replicas", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert house.rig.log.position == position


@pytest.mark.parametrize("why", ["x" * 201, "two%0Alines"])
async def test_a_reason_is_one_short_line(house: House, why: str) -> None:
    async with asked(house) as client:
        answer = await client.post(f"/replicas/a/drain?why={why}")
    assert answer.status_code == 400
    assert house.rig.state.standing("a") == "LIVE"


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/replicas/b/eject"), ("DELETE", "/replicas/b"), ("POST", "/replicas/b/drain")],
)
async def test_an_unknown_replica_is_404(house: House, method: str, path: str) -> None:
    async with asked(house) as client:
        answer = await client.request(method, path)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "replica_not_found"


async def test_a_reload_tells_what_it_did_and_what_waits(house: House) -> None:
    async with asked(house) as client:
        answer = await client.post("/reload")
    assert answer.json() == {
        "result": "applied",
        "digest": "0123456789abcdef",
        "position": house.rig.log.position,
        "restart_needed": ["server.listen"],
        "changed": ["eject.cooldown 30s -> 1m"],
    }


async def test_a_rejected_reload_lists_every_problem(house: House) -> None:
    problem = {"place": "t.toml", "key": "scrape.x", "value": "", "message": "is not known"}
    house.reloaded = Reloaded("rejected", problems=(problem, problem))
    async with asked(house) as client:
        answer = await client.post("/reload")
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "configuration_rejected"
    assert "scrape.x: is not known" in answer.json()["error"]["message"]
    assert answer.json()["problems"] == [problem, problem]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/reload"),
        ("POST", "/replicas"),
        ("DELETE", "/replicas/a"),
        ("POST", "/replicas/a/eject"),
    ],
)
async def test_a_strangers_page_and_a_full_log_change_nothing(
    house: House, method: str, path: str
) -> None:
    position = house.rig.log.position
    async with asked(house) as client:
        stranger = {"origin": "http://evil.example"}
        refused = await client.request(method, path, headers=stranger, json=GPU)
        assert refused.status_code == 403
        house.trouble = JournalFull(1, 1, 1, 1)
        full = await client.request(method, path, json=GPU)
        assert full.status_code == 503
    assert house.rig.log.position == position


async def test_whoever_takes_the_last_replica_away_is_told(house: House) -> None:
    house.rig.live("c", models=("rag",))
    async with asked(house) as client:
        assert "note" not in (await client.post("/replicas/a/drain")).json(), "b is there"
        ejected = (await client.post("/replicas/c/eject")).json()["note"]
        assert "the last replica in traffic for rag" in ejected
        assert "still go there as a fallback" in ejected
        assert "drain is what stops them" in ejected
        drained = (await client.post("/replicas/c/drain")).json()["note"]
        assert "for rag: 503 follows" in drained
