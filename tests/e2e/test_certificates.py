"""Certificates of a running router, read again by SIGHUP and by the admin port, over real TLS."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.certificates import Pair, self_signed
from tests.e2e.fleet import Fleet, RouterProcess, chat, wait_for
from tests.loop_time import HELD_UP

COMPLETIONS = "/v1/chat/completions"


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[Pair, Pair, Pair]:
    """What the settings name, and two others to be copied over it."""
    one, other = self_signed(tmp_path, "one"), self_signed(tmp_path, "other")
    named = Pair(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    put(one, named)
    return named, one, other


def put(pair: Pair, over: Pair) -> None:
    shutil.copy(pair.cert, over.cert)
    shutil.copy(pair.key, over.key)


def tls_router(fleet: Fleet, named: Pair) -> RouterProcess:
    """Both its ports speak TLS."""
    router = fleet.router(
        server_tls_cert=named.cert, server_tls_key=named.key, server_admin_tls="true"
    )
    router.url, router.admin = (
        url.replace("http:", "https:") for url in (router.url, router.admin)
    )
    return router


@contextmanager
def trusting(pair: Pair, *, http2: bool = False) -> Iterator[httpx.Client]:
    with closing(httpx.Client(verify=pair.client(), http2=http2, timeout=20)) as client:
        yield client


def ready(router: RouterProcess, client: httpx.Client) -> None:
    wait_for("ready", lambda: client.get(router.admin + "/readyz").status_code == 200)


def shows(url: str, pair: Pair) -> bool:
    """Whether a new handshake there gets this certificate."""
    with trusting(pair) as client:
        try:
            return client.get(url).status_code in (200, 404)
        except httpx.ConnectError:
            return False


@pytest.mark.parametrize("http2", [False, True])
def test_sighup_renews_the_certificate_of_both_ports_under_a_stream_that_goes_on(
    fleet: Fleet, pairs: tuple[Pair, Pair, Pair], http2: bool
) -> None:
    named, one, other = pairs
    fleet.engine("--decode-tokens-per-s=20")
    router = tls_router(fleet, named)
    with trusting(one, http2=http2) as before:
        ready(router, before)
        asked = chat(stream=True, max_tokens=40)
        with before.stream("POST", router.url + COMPLETIONS, json=asked) as answer:
            assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
            put(other, named)
            router.popen.send_signal(signal.SIGHUP)
            wait_for("the new certificate", lambda: shows(router.url + "/health", other))
            assert shows(router.admin + "/readyz", other)
            assert not shows(router.url + "/health", one)
            with trusting(other, http2=http2) as after:
                assert after.post(router.url + COMPLETIONS, json=chat()).status_code == 200
                state = after.get(router.admin + "/state").json()
                assert state["replicas"][0]["in_flight"] == 1, "the stream is still under way"
            assert answer.read().decode().endswith("data: [DONE]\n\n")
        assert before.get(router.url + "/health").status_code == 200, "an open connection stays"
    assert "the TLS certificate is another one, SHA-256 " in router.text()
    assert router.stop() == 0
    errors = [line for line in router.text().splitlines() if "ERROR" in line]
    assert not [line for line in errors if HELD_UP not in line], errors


def test_a_bad_file_changes_nothing_and_is_named_with_the_reason(
    fleet: Fleet, pairs: tuple[Pair, Pair, Pair]
) -> None:
    named, one, other = pairs
    fleet.engine()
    router = tls_router(fleet, named)
    with trusting(one) as client:
        ready(router, client)

        def reload() -> Any:
            return client.post(router.admin + "/reload").json()

        assert reload()["result"] == "unchanged"
        shutil.copy(other.cert, named.cert)  # the key is still the old one
        (problem,) = reload()["problems"]
        assert (problem["key"], problem["value"]) == ("server.tls_key", f'"{named.key}"')
        assert problem["message"] == "does not belong to the first certificate in server.tls_cert"
        assert shows(router.url + "/health", one)
        Path(named.cert).write_text("")
        assert reload()["problems"][0]["key"] == "server.tls_cert"
        assert shows(router.url + "/health", one)
        assert f'server.tls_cert = "{named.cert}": holds no certificate' in router.text()
        put(other, named)
        assert reload()["result"] == "applied"
        assert shows(router.url + "/health", other)
        assert shows(router.admin + "/readyz", other)


def test_other_files_are_taken_at_once_and_tls_is_turned_off_at_the_next_start(
    fleet: Fleet, pairs: tuple[Pair, Pair, Pair], tmp_path: Path
) -> None:
    _, one, other = pairs
    engine = fleet.engine()
    file = tmp_path / "t.toml"

    def written(server: str) -> None:
        file.write_text(f'[server]\n{server}\n[[replica]]\nurl = "{engine.url}"\n')

    written(f'tls_cert = "{one.cert}"\ntls_key = "{one.key}"')
    router = fleet.router(config=file).ready()
    url = router.url.replace("http:", "https:") + "/health"
    assert shows(url, one)
    written(f'tls_cert = "{other.cert}"\ntls_key = "{other.key}"')
    told = httpx.post(router.admin + "/reload").json()
    assert (told["result"], told["restart_needed"]) == ("applied", [])
    assert shows(url, other)
    written("")
    told = httpx.post(router.admin + "/reload").json()
    assert told["restart_needed"] == ["server.tls_cert", "server.tls_key"]
    assert shows(url, other)


def test_the_commands_ask_an_admin_port_over_tls(
    fleet: Fleet, pairs: tuple[Pair, Pair, Pair]
) -> None:
    named, one, other = pairs
    fleet.engine()
    router = tls_router(fleet, named)
    with trusting(one) as client:
        ready(router, client)

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "trioroute", *more, "--admin", router.admin],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ,
        )

    assert "gpu1" in run("replica", "list", "--ca-file", one.cert).stdout
    assert "gpu1" in run("top", "--once", "--ca-file", one.cert).stdout
    stranger = run("replica", "list", "--ca-file", other.cert)
    assert (stranger.returncode, "CERTIFICATE_VERIFY_FAILED" in stranger.stderr) == (1, True)
    no_pem = run("top", "--ca-file", one.key)
    assert (no_pem.returncode, "holds no certificate" in no_pem.stderr) == (2, True)
