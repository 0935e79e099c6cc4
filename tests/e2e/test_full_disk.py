"""A router that is stopped, and started, while the disk of its log is full."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.e2e.fleet import Fleet, RouterProcess, chat, wait_for
from tests.small_disk import fill, mounted


def ask(router: RouterProcess, tokens: int) -> httpx.Response:
    asked = chat(max_tokens=tokens)
    return httpx.post(router.url + "/v1/chat/completions", json=asked, timeout=60)


def test_a_stop_on_a_full_disk_says_what_is_lost_and_a_start_what_helps(fleet: Fleet) -> None:
    fleet.engine()
    with mounted(fleet.directory / "log", 2 << 20) as log, ThreadPoolExecutor(1) as pool:
        router = fleet.router(log_gate_wait="200ms").ready()
        running = pool.submit(ask, router, 200)
        wait_for("it in flight", lambda: router.replica("gpu1")["in_flight"] == 1)
        assert router.replay("--last", "1").returncode == 0, "its decision is on the disk"
        ballast = fill(log)

        def refused() -> bool:
            return ask(router, 1).status_code == 503

        wait_for("the disk felt", refused)
        answer = running.result()
        assert answer.status_code == 200
        assert answer.json()["usage"]["completion_tokens"] == 200
        assert router.stop(within_s=40) == 1
        told = router.text()
        assert "trying for 10 s more: free room on its disk now, and nothing is lost" in told
        assert " at the end of this run could not be written: lost (" in told
        assert "Stopped" in told
        assert "The next start says so in the log (Gap)" in told
        end = router.replay("--incident", "-1h/now").stdout
        assert "log stalled" in end
        assert "nothing went wrong" not in end
        assert "its router ended in order" in end
        assert "what their clients got is not known" in end
        assert "is a copy" not in end
        told = router.replay("--last", "1").stderr
        assert "-wal is not there" not in told
        fill(log)
        router.start()
        assert router.popen.wait(60) == 1
        assert "free room on its disk" in router.text()
        ballast.unlink()
        router.start()
        router.ready()
        assert "of the last run could not be written and are lost" in router.text()
        assert router.stop() == 0
        router.verify()
        incident = json.loads(router.replay("--incident", "-1h", "--json").stdout)
        assert incident["first_cause"]["kind"] == "log"
        assert "died" not in json.dumps(incident)
        assert "broken connection" not in json.dumps(incident)
        assert [phase["name"] for phase in incident["phases"]].count("log stalled") == 1
        name = answer.headers["x-trioroute-decision"]
        followed = router.replay("--decision", name).stdout
        assert (
            "its end is among the last events of that run, which could not be written" in followed
        )
        router.start()
        assert router.ready().stop() == 0
        assert "\n1 gap:" in router.verify(), "what was told once is not told again"
