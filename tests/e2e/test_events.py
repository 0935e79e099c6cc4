"""``/events`` of a real router: follows the log across a kill, ends with the router."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.fleet import Fleet, RouterProcess, chat


def events(router: RouterProcess, query: str, count: int) -> list[dict[str, Any]]:
    return list(follow(router, query, count))


def follow(router: RouterProcess, query: str, count: int) -> Iterator[dict[str, Any]]:
    url = f"{router.admin}/events?{query}"
    with httpx.stream("GET", url, timeout=10, trust_env=False) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        for line in answer.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))
                count -= 1
                if not count:
                    return


def ask(router: RouterProcess) -> str:
    answer = httpx.post(router.url + "/v1/chat/completions", json=chat(), timeout=20)
    assert answer.status_code == 200
    return answer.headers["x-trioroute-decision"]


def test_a_watcher_goes_on_after_the_router_was_killed(fleet: Fleet) -> None:
    fleet.engine()
    router = fleet.router().ready()
    number = int(ask(router).split("/")[1])
    before = events(router, "since=0", number)
    assert [one["version"] for one in before] == [*range(1, number + 1)]
    assert before[-1]["kind"] == "Dispatched"
    router.kill()
    router.start()
    router.ready()
    last = int(ask(router).split("/")[1])
    after = events(router, f"since={number}", last - number)
    assert [one["version"] for one in after] == [*range(number + 1, last + 1)]
    assert "Started" in {one["kind"] for one in after}
    only = events(router, "since=0&kinds=Dispatched", 2)
    assert [one["version"] for one in only] == [number, last]


def test_watchers_do_not_hold_up_the_end(fleet: Fleet) -> None:
    fleet.engine()
    router = fleet.router(server_graceful_timeout="60s").ready()
    with httpx.stream("GET", router.admin + "/events", timeout=60, trust_env=False) as answer:
        assert answer.status_code == 200
        assert router.stop(within_s=40) == 0, router.text()
    assert "Traceback" not in router.text()


def test_the_stream_asks_for_the_admin_token(fleet: Fleet, tmp_path: Path) -> None:
    engine = fleet.engine()
    config = tmp_path / "r.toml"
    config.write_text(
        f'[server]\nadmin_token_env = "SECRET_OF_ADMIN"\n[[replica]]\nurl = "{engine.url}"\n'
    )
    fleet.routers.append(
        RouterProcess(tmp_path, [], env={"SECRET_OF_ADMIN": "s3cret" * 4}, config=config)
    )
    router = fleet.routers[-1].ready()
    assert httpx.get(router.admin + "/events", timeout=10).status_code == 401
    token = {"authorization": "Bearer " + "s3cret" * 4}
    url = router.admin + "/events"
    with httpx.stream("GET", url, headers=token, timeout=10, trust_env=False) as answer:
        assert answer.status_code == 200
