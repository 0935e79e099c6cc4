"""`trioroute engine` as a process."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import httpx
import pytest
from click.testing import CliRunner

from trioroute.cli.engine import engine_command, parse_listen

RUN = "from trioroute.cli.engine import engine_command; engine_command()"


@contextmanager
def engine(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the address it printed."""
    command = [sys.executable, "-c", RUN, "--listen", "127.0.0.1:0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on http://127.0.0.1:")
            yield process, line.removeprefix("listening on ").strip()
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_quickly_and_cleanly_also_with_an_open_stream(number: int) -> None:
    asked = {"prompt": "a", "stream": True, "max_tokens": 5000}
    with engine("--model", "one", "--model", "two") as (process, url):
        with httpx.Client(base_url=url, trust_env=False) as client:
            models = client.get("/v1/models").json()["data"]
            assert [model["id"] for model in models] == ["one", "two"]
            with client.stream("POST", "/v1/completions", json=asked) as answer:
                pieces = answer.iter_raw()
                next(pieces)
                began_s = time.monotonic()
                process.send_signal(number)
                assert process.wait(timeout=60) == 0
                # 0.1 s on a quiet machine; the stream it does not wait for would last 83 s
                assert time.monotonic() - began_s < 50
                with pytest.raises(httpx.TransportError):
                    list(pieces)


def test_an_address_in_use_is_a_usage_error_with_a_remedy() -> None:
    with engine() as (_, url):
        address = url.removeprefix("http://")
        result = CliRunner().invoke(engine_command, ["--listen", address])
    assert result.exit_code == 2
    assert f"cannot listen on {address}" in result.output
    assert "choose another --listen" in result.output


@pytest.mark.parametrize(
    "arguments", [["--listen", "8000"], ["--listen", "h:99999"], ["--max-running", "0"]]
)
def test_wrong_arguments_exit_with_2_and_name_the_value(arguments: list[str]) -> None:
    result = CliRunner().invoke(engine_command, arguments)
    assert result.exit_code == 2
    assert arguments[1] in result.output


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(engine_command, ["--help"])
    assert result.exit_code == 0
    assert "trioroute engine --listen" in result.output


def test_ipv6_addresses_are_read_in_brackets() -> None:
    assert parse_listen("[::1]:80") == ("::1", 80)
    with pytest.raises(click.BadParameter):
        parse_listen("::")


def test_the_access_log_tells_what_it_saw_of_each_request(tmp_path: Path) -> None:
    file = tmp_path / "access"
    asked = {"prompt": "a", "max_tokens": 2}
    with engine("--access-log", str(file)) as (_, url), httpx.Client(base_url=url) as client:
        client.post("/v1/completions", json=asked, headers={"x-request-id": "one"})
        client.post("/faults", json={"status": 503, "count": 1})
        client.post("/v1/completions", json=asked)
        long = {**asked, "stream": True, "max_tokens": 5000}
        with client.stream("POST", "/v1/completions", json=long) as answer:
            next(answer.iter_raw())
        assert client.get("/health").status_code == 200
        deadline = time.monotonic() + 10
        while len(file.read_text().splitlines()) < 6 and time.monotonic() < deadline:
            time.sleep(0.02)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    keys = ("request_id", "event", "status", "whole")
    told = [tuple(line.get(key) for key in keys) for line in lines]
    assert told == [
        ("one", "taken", None, None),
        ("one", "ended", 200, True),
        (None, "taken", None, None),
        (None, "ended", 503, True),
        (None, "taken", None, None),
        (None, "ended", 200, False),
    ]


def test_an_access_log_that_cannot_be_written_is_a_usage_error() -> None:
    result = CliRunner().invoke(engine_command, ["--access-log", "/nowhere/at/all"])
    assert result.exit_code == 2
    assert "cannot write --access-log /nowhere/at/all" in result.stderr
