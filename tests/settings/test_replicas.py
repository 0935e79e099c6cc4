"""Replicas of the file and of ``--replica``."""

from pathlib import Path

import pytest

from tests.settings.writing import loaded, problem, problems
from trioroute.settings import BadValue, GenericMetrics, ReplicaSetting, parse_replica_option


def test_a_replica_is_called_host_and_port_unless_it_is_named(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        """
        [[replica]]
        url = "http://10.0.0.1:8000"
        [[replica]]
        name = "gpu2"
        url = "https://gpu2"
        models = ["qwen3-32b", "Qwen/Qwen3-8B"]
        engine = "vllm"
        api_key_env = "GPU2_KEY"
        """,
        environ={"GPU2_KEY": "k"},
    ).replicas
    assert found == (
        ReplicaSetting(name="10.0.0.1:8000", url="http://10.0.0.1:8000"),
        ReplicaSetting(
            name="gpu2",
            url="https://gpu2",
            models=("qwen3-32b", "Qwen/Qwen3-8B"),
            engine="vllm",
            api_key_env="GPU2_KEY",
        ),
    )


@pytest.mark.parametrize(
    "lines, key, message",
    [
        ("[[replica]]\nname = 'a'", "replica[0].url", "is missing"),
        ("[[replica]]\nurl = 3", "replica[0].url", "is not a URL"),
        ("[[replica]]\nurl = 'http://a'\nname = ''", "replica[0].name", "is empty"),
        ("[[replica]]\nurl = 'http://a'\nname = '..'", "replica[0].name", "does not have the"),
        ("[[replica]]\nurl = 'http://a'\nname = 'a/b'", "replica[0].name", "does not have the"),
        ("[[replica]]\nurl = 'http://a'\nmodels = 'm'", "replica[0].models", "is not a list"),
        ("[[replica]]\nurl = 'http://a'\nmodels = ['']", "replica[0].models", 'holds "", which'),
        ("[[replica]]\nurl = 'http://a'\nmodels = ['m','m']", "replica[0].models", 'names "m"'),
        ("[replica]\nurl = 'http://a'", "replica", "is not a list of tables"),
        ("replica = ['http://a']", "replica[0]", "is not a table"),
    ],
)
def test_a_wrong_replica_is_refused(tmp_path: Path, lines: str, key: str, message: str) -> None:
    found = problem(tmp_path, lines)
    assert found.key == key
    assert found.message.startswith(message)


def test_replicas_that_share_a_name_or_a_place_are_refused(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """
        replica = [
          { name = "a", url = "http://gpu1:80" },
          { name = "b", url = "http://GPU1/" },
          { name = "a", url = "http://gpu2" },
        ]
        """,
    )
    assert [(one.key, one.value) for one in found] == [
        ("replica.url", '"http://gpu1"'),
        ("replica.name", '"a"'),
    ]
    assert found[0].message == 'of "b" is that of "a" too'


def test_more_replicas_than_a_router_may_have_are_refused(tmp_path: Path) -> None:
    many = "".join(f'[[replica]]\nurl = "http://10.0.{n // 256}.{n % 256}"\n' for n in range(1001))
    assert problem(tmp_path, many).message == "has more than 1000 entries"


@pytest.mark.parametrize(
    "environ, why",
    [
        ({}, "is not set"),
        ({"GPU_KEY": ""}, "is not set"),
        ({"GPU_KEY": "hunter2\n"}, "holds what no header may hold"),
        ({"GPU_KEY": "hünter2"}, "holds what no header may hold"),
    ],
)
def test_the_variable_of_a_key_must_hold_one(
    tmp_path: Path, environ: dict[str, str], why: str
) -> None:
    lines = '[[replica]]\nname = "a"\nurl = "http://a"\napi_key_env = "GPU_KEY"'
    found = problem(tmp_path, lines, environ=environ)
    assert found.value == '"GPU_KEY"'
    assert found.message == f'of "a" names a variable that {why}'
    assert "nter2" not in str(found)


@pytest.mark.parametrize(
    "text, name, url",
    [
        ("http://gpu1:8000", "gpu1:8000", "http://gpu1:8000"),
        ("gpu1=http://10.0.0.1:8000/", "gpu1", "http://10.0.0.1:8000"),
        ("https://gpu1/engine", "gpu1:443", "https://gpu1/engine"),
        ("http://[::1]:8000", "[::1]:8000", "http://[::1]:8000"),
        (" a.b_c-1=http://x ", "a.b_c-1", "http://x"),
    ],
)
def test_a_replica_option_is_a_url_with_or_without_a_name(text: str, name: str, url: str) -> None:
    assert parse_replica_option(text) == ReplicaSetting(name=name, url=url)


@pytest.mark.parametrize(
    "text", ["", "gpu1", "gpu1:8000", "=http://gpu1", "a b=http://gpu1", "gpu1=", "gpu1=http://"]
)
def test_a_wrong_replica_option_is_refused(text: str) -> None:
    with pytest.raises(BadValue) as caught:
        parse_replica_option(text)
    assert caught.value.remedy


def test_no_replica_exists_that_could_not_be_used() -> None:
    with pytest.raises(BadValue, match="ends in /v1"):
        ReplicaSetting(name="a", url="http://gpu1/v1")
    with pytest.raises(BadValue, match="does not have the right form"):
        ReplicaSetting(name="a/b", url="http://gpu1")


GENERIC = '[[replica]]\nurl = "http://a"\nengine = "generic"\n'


def test_a_generic_engine_needs_the_names_of_its_load(tmp_path: Path) -> None:
    found = problem(tmp_path, f'{GENERIC}[scrape.generic]\nrunning = "r"')
    assert found.key == "scrape.generic.running"
    assert "scrape.generic.waiting" in found.message
    whole = f'{GENERIC}[scrape.generic]\nrunning = "r"\nwaiting = "w"\npath = "/load"'
    assert loaded(tmp_path, whole).generic == GenericMetrics("/load", "r", "w")


def test_an_engine_that_is_not_known_is_refused(tmp_path: Path) -> None:
    found = problem(tmp_path, '[[replica]]\nurl = "http://a"\nengine = "ollama"')
    assert (found.key, found.message) == ("replica[0].engine", "is not one of the choices")
