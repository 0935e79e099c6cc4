"""API keys in the configuration: hashes only, and never shown."""

from pathlib import Path

import pytest

from tests.settings.writing import loaded
from trioroute.settings import ApiKey, SettingsError, key_digest, load

HASH = key_digest("tr-canary")
OTHER = key_digest("tr-other")


def problems(path: Path, text: str) -> list[str]:
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(path, environ={})
    return [str(problem) for problem in caught.value.problems]


def test_keys_come_from_the_file_and_from_their_own_file(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"# ours\n\n b : {OTHER.upper()} : p2 \n")
    found = loaded(
        tmp_path,
        f'[server]\napi_keys_file = "{keys}"\n[[server.api_keys]]\nname = "a"\n'
        f'sha256 = "{HASH}"\nproject = "p1"\nrequests_per_minute = 60\nmax_in_flight = 4\n',
    )
    assert found.api_keys == (
        ApiKey(name="a", sha256=HASH, project="p1", requests_per_minute=60, max_in_flight=4),
        ApiKey(name="b", sha256=OTHER, project="p2"),
    )
    assert HASH not in repr(found)
    assert HASH not in repr(found.in_force)


@pytest.mark.parametrize(
    "entry",
    [
        'name = "a"',
        f'sha256 = "{HASH}"',
        'name = "a"\nsha256 = "tr-canary"',
        f'name = "two words"\nsha256 = "{HASH}"',
        f'name = "a"\nsha256 = "{HASH}"\nkey = "tr-canary"',
        f'name = "a"\nsha256 = "{HASH}"\nmax_in_flight = -1',
    ],
)
def test_an_entry_that_cannot_be_used_is_told_without_its_secret(
    tmp_path: Path, entry: str
) -> None:
    told = problems(tmp_path / "t.toml", f"[[server.api_keys]]\n{entry}\n")
    assert all("server.api_keys[0]" in line for line in told)
    assert not any("tr-canary" in line or HASH in line for line in told)


@pytest.mark.parametrize("line", ["a", "a:tr-canary", f"a:{HASH}:p:x", f"a b:{HASH}", "tr-canary"])
def test_a_line_that_cannot_be_used_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    (tmp_path / "keys").write_text(f"# first\n{line}\n")
    (told,) = problems(tmp_path / "t.toml", f'[server]\napi_keys_file = "{tmp_path / "keys"}"\n')
    assert "line 2" in told
    assert "tr-canary" not in told
    assert HASH not in told


@pytest.mark.parametrize("text", ["", "\n \n", "# team-a left\n", "\ufeff# \r\n"])
@pytest.mark.parametrize("beside", ["", f'[[server.api_keys]]\nname = "a"\nsha256 = "{HASH}"\n'])
def test_a_file_without_any_key_is_refused_and_opens_nothing(
    tmp_path: Path, text: str, beside: str
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(text)
    (told,) = problems(tmp_path / "t.toml", f'[server]\napi_keys_file = "{keys}"\n{beside}')
    assert told.startswith(f"{keys}: holds no key")
    assert "trioroute key new NAME" in told
    assert "remove server.api_keys_file" in told


def test_a_file_too_large_to_be_read_whole_is_refused_not_cut(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"a:{HASH}\n" + "# filler\n" * (1 << 19))
    (told,) = problems(tmp_path / "t.toml", f'[server]\napi_keys_file = "{keys}"\n')
    assert "larger than 4 MiB" in told


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"\ufeffa:{HASH}\n")
    found = loaded(tmp_path, f'[server]\napi_keys_file = "{keys}"\n')
    assert [key.name for key in found.api_keys] == ["a"]


def test_a_line_ends_where_an_editor_ends_it(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"# of the team\u2028\x85\x0c\x1cin full\r\na:{HASH}\n", newline="")
    found = loaded(tmp_path, f'[server]\napi_keys_file = "{keys}"\n')
    assert [key.name for key in found.api_keys] == ["a"]


def test_a_missing_file_with_a_relative_path_is_told_with_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (told,) = problems(tmp_path / "t.toml", '[server]\napi_keys_file = "keys.txt"\n')
    assert str(tmp_path) in told.partition("server.api_keys_file")[2]


@pytest.mark.parametrize("empty", ["", "  "])
@pytest.mark.parametrize(
    "key", ["api_keys", "api_keys_file", "admin_token_env", "tls_cert", "tls_key"]
)
def test_an_empty_variable_takes_no_guard_of_the_file_away(
    tmp_path: Path, key: str, empty: str
) -> None:
    value = '[{ name = "a" }]' if key == "api_keys" else '"SOMETHING"'
    (tmp_path / "t.toml").write_text(f"[server]\n{key} = {value}\n")
    name = f"TRIOROUTE_SERVER_{key.upper()}"
    with pytest.raises(SettingsError) as caught:
        load(tmp_path / "t.toml", environ={name: empty})
    assert f"{name}: server.{key}" in str(caught.value)


def test_a_key_under_two_names_is_refused(tmp_path: Path) -> None:
    entries = "".join(f'[[server.api_keys]]\nname = "{name}"\nsha256 = "{HASH}"\n' for name in "ac")
    (told,) = problems(tmp_path / "t.toml", entries)
    assert 'server.api_keys = "c": is the same key as "a"' in told
    assert "server.api_keys[0]" in told
    assert "server.api_keys[1]" in told
    assert HASH not in told


@pytest.mark.parametrize(
    "token",
    [
        None,
        "",
        " " * 20,
        "short",
        "short" + 20 * " ",
        "with a ümlaut that is long",
        "padded-0123456789 ",
    ],
)
def test_an_admin_token_is_there_and_long(tmp_path: Path, token: str | None) -> None:
    (tmp_path / "t.toml").write_text('[server]\nadmin = "0.0.0.0:0"\nadmin_token_env = "TOKEN_X"\n')
    environ = {} if token is None else {"TOKEN_X": token}
    with pytest.raises(SettingsError) as caught:
        load(tmp_path / "t.toml", environ=environ)
    assert "admin_token_env" in str(caught.value)
    assert not (token or "").strip() or str(token) not in str(caught.value)
    load(tmp_path / "t.toml", environ={"TOKEN_X": "0123456789abcdef"})
