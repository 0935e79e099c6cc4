"""Real vLLM killed, frozen and terminated under load, and the router itself killed."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from tests.e2e.fleet import RouterProcess, wait_for
from tests.real.conftest import MakeRouter
from tests.real.replica import Replica
from tests.real.talk import Told, ask, client_of, released, under_load

pytestmark = [pytest.mark.real_vllm, pytest.mark.timeout(600)]  # replicas start for 40 s and more

Replicas = tuple[Replica, Replica]
GRACE_S = 2.0
FOUND_OUT_S = 6.0
"""For vLLM to stop listening and a scrape to notice on a busy machine; the idle limit is 120 s."""

STREAMS = 6


def test_a_replica_killed_under_load_costs_only_the_streams_that_ran_on_it(
    replicas: Replicas, router: RouterProcess, seen: list[str]
) -> None:
    by_name = {replica.name: replica for replica in replicas}
    with under_load(router.url, 12, sessions=True) as load, client_of(router.url) as client:
        load.more(60)
        cut = ask(
            client,
            "on",
            streamed=True,
            tokens=1900,
            at_first=lambda told: by_name[told.replica or ""].kill(),
        )
        victim = by_name[cut.replica or ""]
        wait_for("ejected", lambda: _state(router, victim) == "EJECTED", 5)
        ejected_s = time.monotonic() - cut.ended_at
        load.more(60)
    lost = [cut, *(told for told in load.told if told.error is not None)]
    seen.append(f"replica killed: {load.served()} served, EJECTED {ejected_s:.3f} s after the cut")
    seen.extend(f"  after piece {told.pieces} of a stream: {told.error}" for told in lost)
    for told in lost:
        assert told.streamed, told
        assert told.error is not None, told
        assert told.replica == victim.name, told
        assert released(router, told.decision)["outcome"] == "upstream_cut"
    router.quiet()
    router.verify()
    _router_killed_with_one_replica_out(router, victim, seen)


def _router_killed_with_one_replica_out(
    router: RouterProcess, victim: Replica, seen: list[str]
) -> None:
    """What a restart finds, while users without sessions keep asking."""
    before = router.state()
    with under_load(router.url, 8, sessions=False) as load:
        load.more(30)
        router.kill()
        seen.append(f"router killed: {router.verify().strip()}")
        router.start()
        router.ready()
        load.more(30)
        after = router.state()
    assert after["pins"] == before["pins"]
    assert _state(router, victim) == "EJECTED", "its cooldown is not over"
    assert router.replica(victim.name)["eject_count"] == 1


def test_a_router_killed_under_load_knows_every_pin_again(
    router: RouterProcess, client: openai.OpenAI, seen: list[str]
) -> None:
    def homes() -> list[str | None]:
        return [
            ask(client, "where?", streamed=False, tokens=1, session=f"s{number}").replica
            for number in range(12)
        ]

    before = homes()
    assert set(before) == {"vllm1", "vllm2"}
    with under_load(router.url, 8, sessions=False) as load:
        for _ in range(3):
            load.more(20)
            router.kill()
            router.verify()
            router.start()
            router.ready()
        load.more(20)
    router.quiet()
    wait_for("calm", lambda: not any(r["running"] for r in router.state()["replicas"]))
    assert homes() == before
    assert router.state()["pins"]["session"] == 12
    answer = ask(client, "why?", streamed=False, tokens=1, session="s0")
    assert (answer.reason, answer.replica) == ("affinity:session", before[0])
    seen.append(f"router killed 3 times under load: {load.served()} served")


def test_a_frozen_worker_ends_its_stream_at_the_idle_limit(
    replicas: Replicas, make_router: MakeRouter, seen: list[str]
) -> None:
    """A server with a frozen worker answers /health and /metrics, so only limits of time help."""
    router = make_router(timeouts_idle="2s", timeouts_first_byte="3s")
    by_name = {replica.name: replica for replica in replicas}
    frozen: list[Replica] = []

    def freeze(told: Told) -> None:
        frozen.append(by_name[told.replica or ""])
        frozen[0].freeze()

    with client_of(router.url) as client:
        try:
            cut = ask(client, "on", streamed=True, tokens=1900, session="a", at_first=freeze)
            silent_s = cut.ended_at - cut.last_at
            assert cut.error is not None, cut
            assert 1.9 < silent_s < 6
            assert released(router, cut.decision)["outcome"] == "idle_timeout"
            late = ask(client, "and now?", streamed=False, session="a")
            running = frozen[0].gauge("vllm:num_requests_running")
            seen.append(f"worker frozen: {silent_s:.2f} s silent, then {cut.error}")
            seen.append(f"  its /metrics meanwhile: 200, running {running:.0f}")
            seen.append(f"  next request of the session, {late.replica}: {late.error or 'whole'}")
        finally:
            for replica in frozen:
                replica.thaw()
        wait_for("it works on", frozen[0].idle, 10)
        with client_of(frozen[0].url) as direct:
            assert ask(direct, "awake?", streamed=True).whole


def test_a_terminated_replica_never_leaves_a_stream_hanging(
    replicas: Replicas, make_router: MakeRouter, seen: list[str]
) -> None:
    """vLLM at SIGTERM does one of three: it hangs, aborts or sends an error (RULES 6.12, 6.13)."""
    router = make_router(eject_stream_grace=f"{GRACE_S}s")
    victim, other = replicas
    terminated_at = 0.0

    def terminate() -> None:
        nonlocal terminated_at
        terminated_at = time.monotonic()
        victim.terminate()

    begun = threading.Barrier(STREAMS, action=terminate, timeout=20)

    def begin(told: Told) -> None:
        begun.wait()

    with client_of(router.url) as client, ThreadPoolExecutor(STREAMS) as pool:
        streams = [
            pool.submit(ask, client, f"{n}", streamed=True, tokens=1500, at_first=begin)
            for n in range(STREAMS)
        ]
        told_all = [stream.result() for stream in streams]
        after = [ask(client, f"after {n}", streamed=True) for n in range(6)]
    assert {told.replica for told in told_all} == {victim.name, other.name}
    for told in told_all:
        seen.append(f"SIGTERM for {victim.name}: {_ending(told, terminated_at)}")
        if told.replica != victim.name:
            assert told.whole, told
        elif not told.whole:
            assert told.error is not None or told.finish == "abort", told
            assert told.ended_at - max(told.last_at, terminated_at) < GRACE_S + FOUND_OUT_S, told
            outcome = released(router, told.decision)["outcome"]
            assert outcome in ("upstream_cut", "upstream_error", "idle_timeout")
    assert all(told.whole for told in after), after
    assert {told.replica for told in after} == {other.name}
    assert _state(router, victim) == "EJECTED"


def _ending(told: Told, since: float) -> str:
    end = told.error or f"finish_reason {told.finish}"
    return (
        f"{told.replica}: {told.pieces} pieces, last {told.last_at - since:+.2f} s, "
        f"ended {told.ended_at - since:+.2f} s: {end}"
    )


def _state(router: RouterProcess, replica: Replica) -> str:
    found: str = router.replica(replica.name)["state"]
    return found
