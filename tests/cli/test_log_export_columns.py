"""Every exported line has the same keys with the same types: an importer may be told them."""

import json
from pathlib import Path

from click.testing import CliRunner

from eventlog.sqlite import SqliteStore
from tests.replay.rig import store_of
from tests.rig import Rig
from trioroute.cli.root import main
from trioroute.events.views import VIEWS

TYPES = {
    "seq": int,
    "stream": str,
    "version": int,
    "kind": str,
    "schema": int,
    "at": str,
    "at_ms": int,
    "seen": int,
    "chain": str,
    "body": dict,
}


def test_all_kinds_of_events_have_the_columns_that_log_md_names(tmp_path: Path) -> None:
    rig = Rig().live("a", "b")
    rig.use("s")
    rig.probing("a")
    rig.fail(rig.go("s"), status=502)
    rig.restart()
    store = SqliteStore.open(tmp_path / "log", views=VIEWS)
    store_of(rig.log.entries, store)
    store.close()
    done = CliRunner().invoke(main, ["log", "export", str(tmp_path / "log")])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len({line["kind"] for line in lines}) > 8
    for line in lines:
        assert {key: type(value) for key, value in line.items()} == TYPES
    assert list(lines[0]) == list(TYPES)
