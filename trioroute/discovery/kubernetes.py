"""``[discovery.kubernetes]``: the pods behind EndpointSlices of ``discovery.k8s.io/v1``.

List, then watch from the list's ``resourceVersion`` on, as the API's concepts ask for: a 410 Gone
means that the version is too old, and everything is listed again.
"""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import orjson
import trio

from trioroute.discovery.found import Found, Tell, usable
from trioroute.discovery.http import Api, NoAnswer, api

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where every pod finds its service account: token, ca.crt, namespace."""

PAGE_SLICES = 500
SLICES_MAX = 5000
WATCH_S = 60
"""The server ends a watch after this; the next goes on from where it was."""

QUIET_S = 75.0
RETRY_S = 3.0
GONE = 410

Slices = dict[str, Mapping[str, Any]]


class BadSlice(Exception):
    """A slice that tells no address to use; the text says what to set."""


@attrs.define
class KubernetesSource:
    """``server`` is the API's URL, empty outside of a pod. ``namespace`` empty: the pod's own.
    ``port`` is a number, the name of a slice's port, or empty where a slice has only one."""

    server: str
    selector: str
    namespace: str = ""
    port: str = ""
    account: Path = ACCOUNT
    name: str = attrs.field(default="kubernetes", init=False)
    retry_s: float = RETRY_S

    async def watch(self, tell: Tell) -> None:
        while True:
            try:
                if not self.server:
                    raise NoAnswer("KUBERNETES_SERVICE_HOST is not set; this is no pod")
                namespace = self.namespace or await trio.to_thread.run_sync(self._read, "namespace")
                path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
                ca_file = str(self.account / "ca.crt") if self.server.startswith("https") else None
                async with api(self.server, lambda: self._read("token"), ca_file) as server:
                    await self._follow(server, path, tell)
            except NoAnswer as error:
                tell.outage(str(error))
            except ssl.SSLError:
                tell.outage(f"{self.account / 'ca.crt'} holds no certificate in PEM form")
            except OSError as error:
                tell.outage(f"{self.account / 'ca.crt'} cannot be used: {error.strerror or error}")
            await trio.sleep(self.retry_s)

    def _read(self, name: str) -> str:
        """A file of the account, read anew each time: Kubernetes renews tokens."""
        try:
            return (self.account / name).read_text("ascii").strip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "is not text"
            raise NoAnswer(f"{self.account / name} cannot be read: {why}") from None

    async def _follow(self, server: Api, path: str, tell: Tell) -> None:
        """List and watch until the API does not answer. Raises NoAnswer."""
        while True:
            slices, version = await self._list(server, path)
            while version:
                self._tell(tell, slices)
                version = await self._watch(server, path, tell, slices, version)
            await trio.sleep(self.retry_s)

    async def _list(self, server: Api, path: str) -> tuple[Slices, str]:
        slices: Slices = {}
        after = ""
        while True:
            params: dict[str, str | int] = {"limit": PAGE_SLICES}
            params |= {"continue": after} if after else {}
            status, told = await server.get(path, labelSelector=self.selector, **params)
            if status == GONE and after:  # the first pages are too old for the next one
                slices, after = {}, ""
                continue
            if status in (401, 403):
                who = "the pod's service account"
                raise NoAnswer(f"{who} may not list endpointslices ({status}); see DISCOVERY.md")
            items = told.get("items") if isinstance(told, dict) else None
            if status != 200 or not isinstance(told, dict) or not isinstance(items, list):
                raise NoAnswer(f"{self.server} answers {status} and no list of endpointslices")
            slices.update({one["metadata"]["name"]: one for one in items})
            meta = told.get("metadata") or {}
            after = meta.get("continue") or ""
            if not after:
                return slices, str(meta.get("resourceVersion", ""))
            if len(slices) > SLICES_MAX:
                raise NoAnswer(f"more than {SLICES_MAX} endpointslices match {self.selector}")

    async def _watch(self, server: Api, path: str, tell: Tell, slices: Slices, version: str) -> str:
        """Change ``slices`` as the API tells; the version to go on from, empty to list again."""
        seen = version

        def take(line: bytes) -> bool:
            nonlocal seen
            event = orjson.loads(line)
            kind, told = event["type"], event["object"]
            if kind == "ERROR":
                seen = ""
                return True
            seen = told["metadata"]["resourceVersion"]
            if kind == "DELETED":
                slices.pop(told["metadata"]["name"], None)
            elif kind in ("ADDED", "MODIFIED"):
                slices[told["metadata"]["name"]] = told
            if kind != "BOOKMARK":
                self._tell(tell, slices)
            return False

        def careful(line: bytes) -> bool:
            nonlocal seen
            try:
                return take(line)
            except (ValueError, KeyError, TypeError):
                seen = ""
                return True

        status = 0
        with suppress(NoAnswer):  # the next list tells whether the API is there
            status = await server.listen(
                path,
                careful,
                quiet_s=QUIET_S,
                labelSelector=self.selector,
                watch="true",
                resourceVersion=version,
                allowWatchBookmarks="true",
                timeoutSeconds=WATCH_S,
            )
        return seen if status == 200 else ""

    def _tell(self, tell: Tell, slices: Slices) -> None:
        try:
            tell.found(self.found(slices))
        except BadSlice as bad:
            tell.outage(str(bad))
        except (KeyError, TypeError, AttributeError) as error:
            tell.outage(f"an endpointslice has not the form of discovery.k8s.io/v1: {error!r}")

    def found(self, slices: Mapping[str, Mapping[str, Any]]) -> list[Found]:
        """The replicas of all slices. A pod may stand in several: one for IPv6, one of another
        service, or two while the control plane moves it. IPv4 counts, and who is not ending."""
        by_name: dict[str, Found] = {}
        for _, one in sorted(slices.items(), key=lambda item: (_rank(item[1]), item[0])):
            for found in self._of_slice(one):
                known = by_name.get(found.name)
                if known is None or (known.draining and not found.draining):
                    by_name[found.name] = found
        return list(by_name.values())

    def _of_slice(self, told: Mapping[str, Any]) -> Iterator[Found]:
        endpoints = told.get("endpoints") or []
        port = self._port(told) if endpoints else 0
        for endpoint in endpoints:
            host = endpoint["addresses"][0]
            where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            target = endpoint.get("targetRef") or {}
            name = target.get("name") if target.get("kind") == "Pod" else where
            conditions = endpoint.get("conditions") or {}
            ready = conditions.get("ready") in (True, None)  # unknown means ready
            ending = bool(conditions.get("terminating")) or not ready
            found = usable(self.name, name, f"http://{where}", draining=ending)
            if found is not None:
                yield found

    def _port(self, told: Mapping[str, Any]) -> int:
        if self.port.isdigit():
            return int(self.port)
        ports = {one.get("name") or "": one.get("port") for one in told.get("ports") or []}
        if self.port:
            number = ports.get(self.port)
        else:
            number = next(iter(ports.values())) if len(ports) == 1 else None
        if not isinstance(number, int):
            named = ", ".join(sorted(map(repr, ports))) or "none"
            slice_name = told["metadata"]["name"]
            raise BadSlice(
                f"endpointslice {slice_name} has the ports {named}; "
                "set discovery.kubernetes.port to the name or number of the API's"
            )
        return number


def _rank(told: Mapping[str, Any]) -> bool:
    return told.get("addressType") != "IPv4"


def in_cluster(environ: Mapping[str, str]) -> str:
    """The API's URL as every pod is told; empty outside of one."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT")
    where = f"[{host}]" if ":" in host else host
    return f"https://{where}:{port or 443}" if host else ""
