"""Keys of one name: a rotation, limits of keys in the file, and which names a reload changes."""

from pathlib import Path

import pytest

from tests.settings.writing import loaded, problem
from trioroute.settings import ApiKey, changed_names, key_digest

OLD, NEW = key_digest("tr-old"), key_digest("tr-new")
LIMITS = '[[server.api_keys]]\nname = "team"\nrequests_per_minute = 60\nweight = 3\n'


def server(tmp_path: Path, *lines: str) -> str:
    keys = tmp_path / "keys"
    keys.write_text("".join(f"{line}\n" for line in lines))
    return f'[server]\napi_keys_file = "{keys}"\n'


def test_an_old_and_a_new_key_of_one_name_are_valid_together(tmp_path: Path) -> None:
    found = loaded(tmp_path, server(tmp_path, f"team:{OLD}:p", f"team:{NEW}:p"))
    assert [(key.name, key.sha256) for key in found.api_keys] == [("team", OLD), ("team", NEW)]


def test_keys_of_one_name_that_differ_are_told_with_both_lines(tmp_path: Path) -> None:
    told = str(problem(tmp_path, server(tmp_path, f"team:{OLD}:p", "# new", f"team:{NEW}")))
    keys = tmp_path / "keys"
    assert f"({keys}: line 1; {keys}: line 3) with another project" in told
    assert OLD not in told


def test_a_key_that_is_there_twice_is_told_with_both_lines(tmp_path: Path) -> None:
    told = str(problem(tmp_path, server(tmp_path, f"team:{OLD}", f"team:{OLD}")))
    assert 'is the same key as "team"' in told
    assert "line 1" in told
    assert "line 2" in told


def test_an_entry_without_hash_gives_the_keys_of_the_file_their_limits(tmp_path: Path) -> None:
    text = server(tmp_path, f"team:{OLD}:p", f"team:{NEW}:p", f"other:{key_digest('tr-3')}")
    one, two, other = loaded(tmp_path, text + LIMITS).api_keys
    for key, sha256 in ((one, OLD), (two, NEW)):
        assert key == ApiKey(
            name="team", sha256=sha256, project="p", requests_per_minute=60, weight=3
        )
    assert (other.requests_per_minute, other.weight) == (0, 1)


@pytest.mark.parametrize("in_file", [True, False])
def test_limits_for_nobody_are_refused(tmp_path: Path, in_file: bool) -> None:
    text = server(tmp_path, f"other:{OLD}") if in_file else ""
    told = str(problem(tmp_path, text + LIMITS))
    assert 'server.api_keys = "team": has limits without sha256' in told
    assert "write its sha256" in told


def test_limits_of_a_name_are_written_once(tmp_path: Path) -> None:
    told = problem(tmp_path, server(tmp_path, f"team:{OLD}") + LIMITS + LIMITS)
    assert told.message == "has its limits twice"
    assert told.remedy.endswith("server.api_keys[1]")


def test_names_that_came_went_and_changed_are_told_and_no_key() -> None:
    old = [ApiKey(name="a", sha256=OLD), ApiKey(name="b", sha256=NEW)]
    assert changed_names(old, old) == ""
    assert changed_names(old, old[1:]) == "gone a"
    other = [*old, ApiKey(name="a", sha256=key_digest("x")), ApiKey(name="c", sha256="0" * 64)]
    assert changed_names(old, other) == "new c; changed a"
    many = [ApiKey(name=f"n{n:02}", sha256=f"{n:064}") for n in range(25)]
    assert changed_names([], many).endswith("n19 and 5 more")
