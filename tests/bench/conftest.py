"""The bench's own C programs for its tests; without a compiler they are skipped, and say so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import places
from tests.bench.binaries import NO_COMPILER, binary, compiler
from tests.bench.load import Generator
from tests.bench.upstream import Upstream, upstream


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    if compiler() is None:
        pytest.skip(NO_COMPILER)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        assert not list(places.cache_dir().iterdir())
        yield {name: binary(name) for name in ("load", "upstream")}


@pytest.fixture
def generator(programs: dict[str, Path]) -> Generator:
    return Generator(programs["load"], None)


@pytest.fixture
def replicas(programs: dict[str, Path]) -> Iterator[Upstream]:
    with upstream(programs["upstream"]) as running:
        yield running
