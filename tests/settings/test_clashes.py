"""Settings that do not go together, and files that are not there."""

import os
from pathlib import Path

import pytest

from tests.certificates import self_signed
from tests.settings.writing import loaded, problem


def test_a_cooldown_beyond_its_maximum_is_refused(tmp_path: Path) -> None:
    found = problem(tmp_path, '[eject]\ncooldown_max = "10s"')
    assert found.key == "eject.cooldown_max"
    assert "eject.cooldown (30s) is longer than eject.cooldown_max (10s)" in found.message
    assert loaded(tmp_path, '[eject]\ncooldown = "5m"').in_force.eject.cooldown_ms == 300_000


def test_a_clash_is_told_where_the_last_of_the_two_was_set(tmp_path: Path) -> None:
    found = problem(
        tmp_path, '[eject]\ncooldown_max = "1m"', environ={"TRIOROUTE_EJECT_COOLDOWN": "2m"}
    )
    assert (found.place, found.key, found.value) == (
        "TRIOROUTE_EJECT_COOLDOWN",
        "eject.cooldown",
        '"2m"',
    )


def test_a_wrong_value_does_not_bring_a_clash_with_a_default(tmp_path: Path) -> None:
    found = problem(tmp_path, '[eject]\ncooldown = "bad"\ncooldown_max = "10s"')
    assert found.message == "is not a duration"


def test_one_port_for_both_is_refused_unless_any_free_one_is_asked_for(tmp_path: Path) -> None:
    found = problem(tmp_path, '[server]\nlisten = "0.0.0.0:9090"')
    assert found.message == "server.listen and server.admin have the same port 9090"
    both = '[server]\nlisten = "127.0.0.1:0"\nadmin = "127.0.0.1:0"'
    assert loaded(tmp_path, both).in_force.server.listen == "127.0.0.1:0"


@pytest.mark.parametrize("given, missing", [("tls_cert", "tls_key"), ("tls_key", "tls_cert")])
def test_half_of_a_certificate_is_refused(tmp_path: Path, given: str, missing: str) -> None:
    pem = tmp_path / "half.pem"
    pem.write_text("pem", encoding="utf-8")
    found = problem(tmp_path, f'[server]\n{given} = "{pem}"')
    assert found.key == f"server.{given}"
    assert found.message == f"server.{given} is set without server.{missing}"


def test_certificate_files_must_be_there(tmp_path: Path) -> None:
    pair = self_signed(tmp_path)
    lines = f'[server]\ntls_cert = "{pair.cert}"\ntls_key = "{tmp_path}/nowhere.pem"'
    found = problem(tmp_path, lines)
    assert found.key == "server.tls_key"
    assert found.value == f'"{tmp_path}/nowhere.pem"'
    assert found.message == "cannot be read: No such file or directory"
    lines = f'[server]\ntls_cert = "{pair.cert}"\ntls_key = "{pair.key}"'
    both = loaded(tmp_path, lines).in_force.server
    assert (both.tls_cert, both.tls_key) == (pair.cert, pair.key)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_certificate_this_process_may_not_read_is_refused(tmp_path: Path) -> None:
    pair = self_signed(tmp_path)
    Path(pair.key).chmod(0)
    lines = f'[server]\ntls_cert = "{pair.cert}"\ntls_key = "{pair.key}"'
    found = problem(tmp_path, lines)
    assert (found.key, found.message) == ("server.tls_key", "cannot be read: Permission denied")


def test_the_admin_port_has_no_certificate_of_its_own(tmp_path: Path) -> None:
    found = problem(tmp_path, "[server]\nadmin_tls = true")
    assert found.message == "server.admin_tls is on, and there is no certificate"
    pair = self_signed(tmp_path)
    lines = f'[server]\nadmin_tls = true\ntls_cert = "{pair.cert}"\ntls_key = "{pair.key}"'
    assert loaded(tmp_path, lines).in_force.server.admin_tls
