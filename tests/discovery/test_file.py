"""A watched file, real: written in place, swapped, broken, gone and back."""

import json
import os
from pathlib import Path

import pytest
import trio

from tests.discovery.told import watched
from trioroute.discovery.file import BadList, FileSource, parse


def toml(*names: str) -> str:
    return "".join(
        f'[[replica]]\nname = "{name}"\nurl = "http://10.0.0.1:{n + 1}"\n'
        for n, name in enumerate(names)
    )


async def test_a_file_written_in_place_or_swapped_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text(toml("a"))
    async with watched(FileSource(str(path))) as told:
        await told.lists("a")
        path.write_text(toml("a", "b"))
        await told.lists("a", "b")
        draft = tmp_path / "draft"
        draft.write_text(toml("c"))
        draft.replace(path)
        await told.lists("c")
    assert told.outages == []


async def test_a_bad_or_missing_file_is_an_outage_that_ends(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    async with watched(FileSource(str(path))) as told:
        await told.fails("cannot be read: No such file")
        path.write_text(toml("a"))
        await told.lists("a")
        path.write_text("[[replica]]\nurl =")
        await told.fails("is not TOML")
        path.write_text(toml("a", "b"))
        await told.lists("a", "b")
        path.unlink()
        await told.fails("No such file")


async def test_a_file_that_never_answers_does_not_keep_the_router(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    os.mkfifo(path)
    with trio.move_on_after(20) as late:
        async with watched(FileSource(str(path))) as told:
            await trio.sleep(0.1)
    with path.open("wb"):  # frees the thread that was left behind
        assert not late.cancelled_caught
        assert not told.outages


async def test_a_list_behind_a_symbolic_link_that_is_swapped(tmp_path: Path) -> None:
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "list.toml").write_text(toml(name))
    link = tmp_path / "data"
    link.symlink_to("v1")
    async with watched(FileSource(str(link / "list.toml"))) as told:
        await told.lists("v1")
        fresh = tmp_path / "fresh"
        fresh.symlink_to("v2")
        fresh.replace(link)
        await told.lists("v2")


def test_json_and_toml_tell_the_same() -> None:
    entries = [
        {"name": "a", "url": "http://10.0.0.1:1", "models": ["m"], "draining": True},
        {"url": "http://10.0.0.1:2"},
    ]
    written = (
        '[[replica]]\nname = "a"\nurl = "http://10.0.0.1:1"\nmodels = ["m"]\ndraining = true\n'
        '[[replica]]\nurl = "http://10.0.0.1:2"\n'
    )
    listed = parse("l.json", json.dumps(entries).encode())
    assert listed == parse("l.json", json.dumps({"replica": entries}).encode())
    assert listed == parse("l.toml", written.encode())
    assert [(one.name, one.models, one.draining) for one in listed] == [
        ("a", ("m",), True),
        ("10.0.0.1:2", (), False),
    ]
    assert parse("l.json", b"[]") == parse("l.toml", b"replica = []") == ()


@pytest.mark.parametrize(
    "name, text, why",
    [
        ("l.toml", "", "is empty"),
        ("l.json", " \n", "is empty"),
        ("l.json", "[{", "is not JSON"),
        ("l.json", '"a"', "holds no list"),
        ("l.json", '{"replica": {}}', "holds no list"),
        ("l.json", "{}", "other keys than replica"),
        ("l.toml", "[server]\nname = 'r'", "other keys than replica"),
        ("l.json", "[1]", "is not a table"),
        ("l.json", '[{"name": "a"}]', "is missing"),
        ("l.json", '[{"url": "http://a", "x": 1}]', "is not a known key"),
        ("l.json", '[{"url": "http://a", "draining": 1}]', "neither true nor false"),
        ("l.json", '[{"url": "http://a", "api_key_env": "X"}]', "configuration file alone"),
        ("l.json", '[{"url": "http://a"}, {"url": "http://a:80/"}]', "a:80"),
        ("l.toml", "é", "is not TOML"),
    ],
)
def test_a_list_that_cannot_be_used_says_why(name: str, text: str, why: str) -> None:
    with pytest.raises(BadList, match=why):
        parse(name, text.encode())


def test_a_list_of_more_than_a_mebibyte_is_refused() -> None:
    with pytest.raises(BadList, match="larger than 1 MiB"):
        parse("l.toml", b"#" * (1 << 20) + b"#")
