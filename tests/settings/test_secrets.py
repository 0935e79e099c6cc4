"""No secret is ever in an error, however wrongly it was written down."""

from pathlib import Path

import pytest

from tests.settings.writing import loaded, problems
from trioroute.settings import SettingsError, load

SECRET = "hunter2-sk-live"


@pytest.mark.parametrize(
    "lines",
    [
        f'[[replica]]\nurl = "http://me:{SECRET}@gpu1:8000"',
        f'[[replica]]\nurl = "http://gpu1:8000?key={SECRET}"',
        f'[[replica]]\nurl = ["http://me:{SECRET}@gpu1"]',
        f'[[replica]]\nname = "http://me:{SECRET}@gpu1"\nurl = "http://gpu1"',
        f'[[replica]]\nurl = "http://gpu1"\napi_key = "{SECRET}"',
        f'[[replica]]\nurl = "http://gpu1"\napi_key_env = "{SECRET}"',
        f'[[replica]]\nurl = "http://gpu1"\napi_key_env = "{SECRET.replace("-", "_")}"',
        f'[[replica]]\nurl = "http://gpu1"\napi_key_env = ["{SECRET}"]',
        f'[replica]\nurl = "http://me:{SECRET}@gpu1"',
        f'replica = "http://me:{SECRET}@gpu1"',
        f'[server]\nadmin_token = "{SECRET}"',
        f'[server]\nadmin_token_env = "{SECRET}"',
        f'[server]\nlisten = "http://me:{SECRET}@0.0.0.0:80"',
        f'[server]\napi_keys = ["{SECRET}"]',
        f'[server]\napi_keys = [{{ name = "a", sha256 = "{SECRET}" }}]',
        f'[server]\ntls_key = """-----BEGIN PRIVATE KEY-----\n{SECRET}"""',
        f'[discovery.gpustack]\ntoken = "{SECRET}"',
        f'discovery.gpustack = "{SECRET}"',
        f'[scrape]\ninterval = "http://me:{SECRET}@gpu1"',
        f'api_key = "{SECRET}"',
        f'api_key = "{SECRET}',
        f"api_key = {SECRET}",
    ],
)
def test_a_secret_in_the_file_is_not_repeated(tmp_path: Path, lines: str) -> None:
    found = problems(tmp_path, lines)
    assert not [str(one) for one in found if "hunter2" in repr(one)]


@pytest.mark.parametrize(
    "variable, text",
    [
        ("TRIOROUTE_API_KEY", SECRET),
        ("TRIOROUTE_SERVER_API_KEYS", SECRET),
        ("TRIOROUTE_SERVER_ADMIN_TOKEN", SECRET),
        ("TRIOROUTE_SERVER_ADMIN_TOKEN_ENV", SECRET),
        ("TRIOROUTE_REPLICAS", f"a=http://me:{SECRET}@gpu1"),
        ("TRIOROUTE_REPLICAS", f"http://me:a={SECRET}@gpu1"),
    ],
)
def test_a_secret_in_the_environment_is_not_repeated(variable: str, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, environ={variable: text})
    assert "hunter2" not in repr(caught.value.problems)


def test_a_variable_that_holds_a_replicas_key_is_no_setting(tmp_path: Path) -> None:
    lines = '[[replica]]\nurl = "http://gpu1"\napi_key_env = "TRIOROUTE_GPU1_KEY"'
    settings = loaded(tmp_path, lines, environ={"TRIOROUTE_GPU1_KEY": SECRET})
    assert settings.replicas[0].api_key_env == "TRIOROUTE_GPU1_KEY"
    assert "hunter2" not in repr(settings)
