"""Keys and tokens of a real router: the door, the reload, the commands, and no secret anywhere."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from tests.e2e.fleet import Fleet, RouterProcess, chat, status_of, wait_for
from trioroute.cli.root import main
from trioroute.settings import key_digest

COMPLETIONS = "/v1/chat/completions"
KEY, LATER, TOKEN = "tr-canary-one", "tr-canary-two", "admin-canary-0123456789"


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trioroute", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "TRIOROUTE_ADMIN_TOKEN": TOKEN},
    )


@pytest.fixture
def router(fleet: Fleet, tmp_path: Path) -> RouterProcess:
    engine = fleet.engine()
    keys = tmp_path / "keys"
    keys.write_text(f"# the team\nteam:{key_digest(KEY)}:search\n")
    file = tmp_path / "t.toml"
    file.write_text(
        f'[server]\napi_keys_file = "{keys}"\nadmin_token_env = "TRIOROUTE_ADMIN_TOKEN"\n'
        f'[[replica]]\nname = "gpu1"\nurl = "{engine.url}"\n'
    )
    made = fleet.router(config=file, admin_token=TOKEN)
    wait_for("ready", lambda: status_of(made.admin + "/readyz") == 200)
    return made


def ask(router: RouterProcess, key: str) -> int:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(
        router.url + COMPLETIONS, json=chat(max_tokens=1), headers=headers
    ).status_code


def test_a_bad_key_is_refused_before_the_body(router: RouterProcess) -> None:
    head = (
        f"POST {COMPLETIONS} HTTP/1.1\r\nhost: r\r\nauthorization: Bearer tr-canary-bad\r\n"
        "content-length: 1000000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", router.port), timeout=30) as raw:
        raw.sendall(head.encode())
        answer = raw.recv(65536)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"invalid_api_key" in answer
    assert b"www-authenticate: Bearer" in answer
    assert b"canary" not in answer


def test_keys_are_read_again_and_no_secret_is_kept(router: RouterProcess, tmp_path: Path) -> None:
    assert (ask(router, KEY), ask(router, LATER)) == (200, 401)
    (tmp_path / "keys").write_text(f"team:{key_digest(LATER)}\n")
    router.popen.send_signal(signal.SIGHUP)
    wait_for("the other key", lambda: ask(router, LATER) == 200)
    assert ask(router, KEY) == 401
    assert "reload: API keys: changed team" in router.text()
    (tmp_path / "keys").write_text(f"team:{LATER}\n")  # the key itself, by mistake
    router.popen.send_signal(signal.SIGHUP)
    wait_for("the rejection", lambda: "reload: nothing changed" in router.text())
    assert ask(router, LATER) == 200
    admin = httpx.Client(base_url=router.admin, headers={"authorization": f"Bearer {TOKEN}"})
    pages = "".join(admin.get(path).text for path in ("/state", "/metrics", "/"))
    admin.close()
    assert router.stop() == 0
    told = (
        router.text()
        + pages
        + "".join(
            path.read_bytes().decode("latin-1") for path in router.log.rglob("*") if path.is_file()
        )
    )
    for secret in (KEY, LATER, TOKEN, key_digest(KEY), key_digest(LATER)):
        assert secret not in told
    router.verify()


@pytest.mark.parametrize("emptied", ["", "# nobody\n"])
def test_a_file_of_keys_without_a_key_opens_nothing(
    router: RouterProcess, tmp_path: Path, emptied: str
) -> None:
    assert (ask(router, KEY), ask(router, "tr-canary-no")) == (200, 401)
    (tmp_path / "keys").write_text(emptied)
    router.popen.send_signal(signal.SIGHUP)
    wait_for("the rejection", lambda: "reload: nothing changed" in router.text())
    assert f"{tmp_path / 'keys'}: holds no key" in router.text()
    assert (ask(router, KEY), ask(router, "tr-canary-no")) == (200, 401)
    checked = run_command("check", str(tmp_path / "t.toml"))
    assert checked.returncode == 2
    router.stop()
    started = run_command("serve", "--config", str(tmp_path / "t.toml"))
    assert started.returncode == 2
    assert "holds no key" in started.stderr


def test_a_reload_opens_no_router_that_asked_for_keys(
    router: RouterProcess, tmp_path: Path
) -> None:
    file = tmp_path / "t.toml"
    file.write_text(file.read_text().replace("api_keys_file", "# api_keys_file"))
    router.popen.send_signal(signal.SIGHUP)
    wait_for("the rejection", lambda: "reload opens no router" in router.text())
    assert (ask(router, KEY), ask(router, "tr-canary-no")) == (200, 401)


def test_refusals_are_counted_by_code_and_key(router: RouterProcess, tmp_path: Path) -> None:
    limits = '[[server.api_keys]]\nname = "team"\nrequests_per_minute = 1\n'
    with (tmp_path / "t.toml").open("a") as file:
        file.write(limits)
    router.popen.send_signal(signal.SIGHUP)
    wait_for("the limits", lambda: "reload: API keys: changed team" in router.text())
    assert [ask(router, KEY) for _ in range(4)] == [200, 429, 429, 429]
    assert [ask(router, "tr-canary-no") for _ in range(12)] == [401] * 12
    told = httpx.get(router.admin + "/metrics", headers={"authorization": f"Bearer {TOKEN}"}).text
    assert 'trioroute_refused_total{code="rate_limited",key="team"} 3.0' in told
    assert 'trioroute_refused_total{code="invalid_api_key",key=""} 12.0' in told
    assert 'trioroute_refused_total{code="log_stalled",key=""} 0.0' in told
    assert "refused: 1 rate_limited" in router.text()


def test_the_admin_port_asks_for_its_token(router: RouterProcess) -> None:
    admin = router.admin
    for path in ("/state", "/metrics", "/", "/nowhere"):
        answer = httpx.get(admin + path)
        assert answer.status_code == 401, path
        assert answer.json()["error"]["code"] == "invalid_admin_token"
        assert answer.headers["www-authenticate"].startswith("Basic")
    assert httpx.post(admin + "/reload").status_code == 401
    assert httpx.get(admin + "/state", headers={"authorization": "Bearer no"}).status_code == 401
    assert httpx.get(admin + "/healthz").status_code == 200
    assert httpx.get(admin + "/readyz", headers={"host": "10.0.0.7:9090"}).status_code == 200
    bearer = {"authorization": f"Bearer {TOKEN}", "host": "router.internal:9090"}
    assert httpx.get(admin + "/state", headers=bearer).status_code == 200
    assert httpx.get(admin + "/", auth=("anybody", TOKEN)).status_code == 200
    stranger = {**bearer, "origin": "http://evil.example"}
    assert httpx.post(admin + "/reload", headers=stranger).status_code == 403


def test_the_command_lists_and_changes_a_running_fleet(router: RouterProcess, fleet: Fleet) -> None:
    extra = fleet.engine().ready()
    env = {"TRIOROUTE_ADMIN_TOKEN": TOKEN}

    def replica(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["replica", *arguments, f"--admin={router.admin}"], env=env)
        assert done.exit_code == code, done.output
        return done.output

    assert "gpu1" in replica("list")
    assert "JOINING" in replica("add", f"extra={extra.url}", "--why=more load")
    assert "extra" in replica("list", "--json")
    assert "already" in replica("add", f"other={extra.url}", code=1)
    assert "DRAINING" in replica("drain", "gpu1")
    assert "LIVE" in replica("undrain", "gpu1")
    assert "EJECTED" in replica("eject", "gpu1", "--why=too hot")
    assert "LEFT" in replica("remove", "extra")
    assert "there is no replica" in replica("drain", "nobody", code=1)
    assert "NAME" in replica("drain", code=2)
    env["TRIOROUTE_ADMIN_TOKEN"] = ""
    assert "TRIOROUTE_ADMIN_TOKEN is empty" in replica("list", code=1)
    assert "--token-env" in replica("list", code=1)
    shown = CliRunner().invoke(main, ["top", "--once", f"--admin={router.admin}"], env=env)
    assert shown.exit_code == 1
    assert "TRIOROUTE_ADMIN_TOKEN is empty" in shown.output
    env["TRIOROUTE_ADMIN_TOKEN"] = "another"
    assert "TRIOROUTE_ADMIN_TOKEN holds another one" in replica("list", code=1)
    told = router.replay("--replica", "gpu1")
    assert "by admin: too hot" in told.stdout


def test_a_fresh_key_opens_the_door(router: RouterProcess, tmp_path: Path) -> None:
    made = run_command("key", "new", "second", "--project=search")
    assert made.stdout.count(":") == 2
    key = made.stderr.split()[-1]
    assert key.startswith("tr-")
    assert key not in made.stdout
    with (tmp_path / "keys").open("a") as file:
        file.write(made.stdout)
    router.popen.send_signal(signal.SIGHUP)
    wait_for("the new key", lambda: ask(router, key) == 200)
    assert run_command("key", "new", "two words").returncode == 2
