"""``[discovery.file]``: a list that somebody or something writes, looked at once a second.

Looking lost to inotify nothing but a second: it works for bind mounts, network disks and the
symbolic links by which Kubernetes swaps a ConfigMap, where a watch would follow the old file.
"""

import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import trio

from trioroute.discovery.found import Found, Tell
from trioroute.settings import Problem, ReplicaSetting
from trioroute.settings.replicas import clashing, from_entries

LOOK_S = 1.0
MOST_BYTES = 1 << 20

Mark = tuple[int, int, int]


class BadList(Exception):
    """The file cannot be used as it is; the text says why and what to do."""


@attrs.frozen
class FileSource:
    """``path`` is JSON if its name ends in ``.json``, TOML otherwise."""

    path: str
    name: str = "file"

    async def watch(self, tell: Tell) -> None:
        mark: Mark | None = None
        listed: tuple[Found, ...] | None = None
        while True:
            try:
                # A pipe without a writer or a hung disk never answers: left behind at the end.
                seen, fresh = await trio.to_thread.run_sync(
                    _read_if_new, self.path, mark, abandon_on_cancel=True
                )
                if seen != mark:
                    mark, listed = seen, None
                    listed = parse(self.path, fresh)
                if listed is not None:
                    tell.found(listed)
            except BadList as bad:
                tell.outage(str(bad))
            except OSError as error:
                mark = None
                tell.outage(f"{self.path} cannot be read: {error.strerror or error}")
            await trio.sleep(LOOK_S)


def _read_if_new(path: str, mark: Mark | None) -> tuple[Mark, bytes]:
    """The file's mark, and its bytes if that is another one. Another file under the same name has
    another inode; one written in place another time or size. The mark is that of the open file."""
    with Path(path).open("rb") as stream:
        stat = os.fstat(stream.fileno())
        seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        return seen, b"" if seen == mark else stream.read(MOST_BYTES + 1)


def parse(path: str, raw: bytes) -> tuple[Found, ...]:
    """The replicas of a list. Raises BadList."""
    if len(raw) > MOST_BYTES:
        raise BadList(f"{path} is larger than 1 MiB")
    if not raw.strip():
        raise BadList(f"{path} is empty, so it may be half written; write replica = [] for nobody")
    try:
        text = raw.decode("utf-8-sig")
        told: object = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        form = "JSON" if path.endswith(".json") else "TOML"
        raise BadList(f"{path} is not {form}: {str(error).splitlines()[0]}") from None
    if isinstance(told, dict):
        if told.keys() != {"replica"}:
            raise BadList(f"{path} holds other keys than replica, or none; write [[replica]] only")
        told = told["replica"]
    if not isinstance(told, list):
        raise BadList(f"{path} holds no list of replicas")
    return tuple(_found(path, told))


def _found(path: str, entries: list[Any]) -> Iterator[Found]:
    plain: list[Any] = []
    draining: list[bool] = []
    for entry in entries:
        told = dict(entry) if isinstance(entry, dict) else entry
        flag = told.pop("draining", False) if isinstance(told, dict) else False
        if not isinstance(flag, bool):
            raise BadList(f"{path}: draining of a replica is neither true nor false")
        if isinstance(told, dict) and "api_key_env" in told:
            raise BadList(f"{path}: api_key_env is for the configuration file alone; remove it")
        plain.append(told)
        draining.append(flag)
    read = list(from_entries(path, plain))
    replicas = [one for one in read if isinstance(one, ReplicaSetting)]
    problems = [one for one in read if isinstance(one, Problem)] or list(clashing(path, replicas))
    if problems:
        raise BadList(str(problems[0]))
    for replica, flag in zip(replicas, draining, strict=True):
        yield Found(
            name=replica.name,
            url=replica.url,
            models=replica.models,
            engine=replica.engine,
            draining=flag,
        )
