"""A router that is stopped, and started, while the disk of its log is full."""

import httpx

from tests.e2e.fleet import Fleet, chat, wait_for
from tests.small_disk import fill, mounted


def test_a_stop_on_a_full_disk_says_what_is_lost_and_a_start_what_helps(fleet: Fleet) -> None:
    fleet.engine()
    with mounted(fleet.directory / "log", 2 << 20) as log:
        router = fleet.router(log_gate_wait="200ms").ready()
        ballast = fill(log)

        def refused() -> bool:
            asked = httpx.post(
                router.url + "/v1/chat/completions", json=chat(max_tokens=1), timeout=10
            )
            return asked.status_code == 503

        wait_for("the disk felt", refused)
        assert router.stop(within_s=40) == 1
        told = router.text()
        assert " at the end of this run could not be written: lost (" in told
        assert "Stopped" in told
        assert "the router died and started again" in told
        fill(log)
        router.start()
        assert router.popen.wait(60) == 1
        assert "free room on its disk" in router.text()
        ballast.unlink()
        router.start()
        assert router.ready().stop() == 0
