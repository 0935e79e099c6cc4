"""``[discovery.gpustack]``: the running instances of a GPUStack server (2.x, and 0.7).

The list is what is believed. The watch stream says only that it is time to list again: it is no
SSE (bare objects with a blank line), replays all rows as new ones, and a row that it lost would
stay lost. A deletion between a list and its watch is seen by the next list. Addresses and states
are those of GPUStack's ``ModelInstance``.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeGuard

import attrs
import orjson
import trio

from trioroute.discovery.found import Found, Tell, usable
from trioroute.discovery.http import Api, NoAnswer, api

PATHS = ("/v2/model-instances", "/v1/model-instances")
"""Of 2.x, and of 0.7."""

PAGE_ROWS = 100
PAGES_MAX = 50
LIST_AGAIN_S = 30.0
PAUSE_S = 0.5
"""Between two lists, however much news there is."""

RETRY_S = 3.0
QUIET_S = 40.0
"""The stream has a heartbeat every 15 seconds."""

DELETED = 3

ENGINES = {"SGLang": "sglang"}
"""By ``backend``. All others are read as vLLM, which a page without its names does not hurt."""

Rows = Mapping[int, Found | None]


@attrs.define
class GpuStackSource:
    """``token`` is an API key of the server. ``model`` limits to one ``model_name``, empty: all."""

    url: str
    token: str = attrs.field(default="", repr=False)
    model: str = ""
    name: str = attrs.field(default="gpustack", init=False)
    retry_s: float = RETRY_S
    _path: str = attrs.field(default="", init=False)

    async def watch(self, tell: Tell) -> None:
        async with api(self.url, lambda: self.token or None) as server:
            while True:
                try:
                    rows = await self._list(server)
                    tell.found([found for found in rows.values() if found is not None])
                except NoAnswer as error:
                    tell.outage(str(error))
                    await trio.sleep(self.retry_s)
                    continue
                await self._await_news(server, rows)
                await trio.sleep(PAUSE_S)

    async def _list(self, server: Api) -> Rows:
        """All rows, page by page. Raises NoAnswer, also if rows came or went between two pages: a
        row that slipped from one to the other would look like one that is gone."""
        rows: dict[int, Found | None] = {}
        total = 0
        for page in range(1, PAGES_MAX + 1):
            told = await self._page(server, page)
            pagination, items = told.get("pagination"), told.get("items")
            if not isinstance(pagination, dict) or not isinstance(items, list):
                raise NoAnswer(f"{self.url} lists no model instances; is it a GPUStack server?")
            rows.update({row["id"]: self._found(row) for row in items if _is_row(row)})
            total = pagination.get("total", len(items))
            if page >= pagination.get("totalPage", 1):
                break
        if len(rows) != total:
            raise NoAnswer(f"{self.url} lists {len(rows)} model instances of {total}; asked again")
        return rows

    async def _page(self, server: Api, page: int) -> dict[str, Any]:
        status, told = 404, None
        for path in (self._path,) if self._path else PATHS:
            status, told = await server.get(path, page=page, perPage=PAGE_ROWS)
            if status == 200 and isinstance(told, dict):
                self._path = path
                return told
            if status not in (200, 404, 405):
                break
        self._path = ""  # after an upgrade it may be the other one
        if status in (401, 403):
            where = "see discovery.gpustack.token_env"
            raise NoAnswer(f"{self.url} refuses the token ({status}); {where}")
        raise NoAnswer(f"{self.url} answers {status} and no list of model instances")

    async def _await_news(self, server: Api, rows: Rows) -> None:
        """Until something else runs than in ``rows``, or it is time to list in any case."""

        heard = False

        def is_news(line: bytes) -> bool:
            nonlocal heard
            try:
                told = orjson.loads(line)
            except orjson.JSONDecodeError:
                return False
            if not isinstance(told, dict) or not _is_row(row := told.get("data")):
                return False
            gone = told.get("type") == DELETED
            heard = rows.get(row["id"]) != (None if gone else self._found(row))
            return heard

        with trio.move_on_after(LIST_AGAIN_S):
            with suppress(NoAnswer):  # the next list tells whether the server is there
                await server.listen(self._path, is_news, quiet_s=QUIET_S, watch="true")
            if not heard:
                await trio.sleep(self.retry_s)

    def _found(self, row: dict[str, Any]) -> Found | None:
        """The replica of a row, None if it serves nothing now: only an instance that runs and is
        no part of a group (prefill, decode) answers by itself."""
        if row.get("state") != "running" or row.get("role") not in (None, "", "main"):
            return None
        if self.model and row.get("model_name") != self.model:
            return None
        host, port = row.get("worker_advertise_address") or row.get("worker_ip"), row.get("port")
        if not isinstance(host, str) or not isinstance(port, int):
            return None
        where = f"[{host}]" if ":" in host else host
        draining = row.get("draining_since") is not None
        engine = ENGINES.get(str(row.get("backend")), "vllm")
        url = f"http://{where}:{port}"
        return usable(self.name, row.get("name"), url, draining=draining, engine=engine)


def _is_row(row: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(row, dict) and isinstance(row.get("id"), int)
