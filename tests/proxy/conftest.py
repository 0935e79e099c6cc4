"""A certificate for the tests, and tests that run plain and under TLS alike."""

import pytest

from tests.certificates import Pair, self_signed
from tests.proxy import serving


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=["plain", "tls"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """``serving`` and ``client`` speak so in this test; for ``pytest.mark.usefixtures``."""
    if request.param == "tls":
        monkeypatch.setattr(serving, "spoken", request.getfixturevalue("certificate"))
    return str(request.param)
