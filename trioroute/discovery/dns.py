"""``[discovery.dns]``: the addresses behind a name, asked again when the answer's TTL is over.

dnspython and not ``getaddrinfo``: that one tells neither TTLs nor SRV records.
"""

from collections.abc import Callable
from typing import Any

import attrs
import dns.exception
import dns.resolver
import trio
from dns.asyncresolver import Resolver

from trioroute.discovery.found import Found, Tell, usable

ASK_S = 5.0
"""Limit of one question, over all name servers."""

TTL_LEAST_S = 1.0
TTL_MOST_S = 300.0
RETRY_S = 3.0


class NoAddress(Exception):
    """The name has no address now; the text says why."""


@attrs.define
class DnsSource:
    """With ``port`` each A record is a replica, or each AAAA record where there is no A. Port 0:
    the name has SRV records, and each target is a replica at its own port.

    ``make`` reads the system's configuration of name servers, anew for each question; it may block.
    """

    host: str
    port: int = 0
    scheme: str = "http"
    make: Callable[[], Resolver] = Resolver
    name: str = attrs.field(default="dns", init=False)
    retry_s: float = RETRY_S

    async def watch(self, tell: Tell) -> None:
        while True:
            try:
                resolver = await trio.to_thread.run_sync(self.make)
                resolver.lifetime = ASK_S
                found, ttl_s = await (self._addresses if self.port else self._targets)(resolver)
                tell.found(found)
                await trio.sleep(min(max(ttl_s, TTL_LEAST_S), TTL_MOST_S))
            except NoAddress as error:
                await self._fail(tell, str(error))
            except dns.resolver.NXDOMAIN:
                await self._fail(tell, f"the name {self.host} does not exist")
            except dns.exception.Timeout:
                await self._fail(tell, f"no name server answered for {self.host} in {ASK_S:g} s")
            except (dns.exception.DNSException, OSError) as error:
                await self._fail(tell, f"{self.host} cannot be resolved: {type(error).__name__}")

    async def _fail(self, tell: Tell, why: str) -> None:
        tell.outage(why)
        await trio.sleep(self.retry_s)

    async def _addresses(self, resolver: Resolver) -> tuple[list[Found], float]:
        """A host with both kinds of address is one replica, so only one kind is taken."""
        for kind in ("A", "AAAA"):
            records, ttl_s = await self._ask(resolver, kind)
            if records:
                hosts = sorted(str(record.address) for record in records)
                return self._replicas([(host, self.port) for host in hosts]), ttl_s
        raise NoAddress(f"{self.host} has no address")

    async def _targets(self, resolver: Resolver) -> tuple[list[Found], float]:
        records, ttl_s = await self._ask(resolver, "SRV")
        told = {(record.target.to_text(omit_final_dot=True), record.port) for record in records}
        if not told - {(".", 0)}:
            raise NoAddress(f"{self.host} has no SRV record")
        return self._replicas(sorted(told)), ttl_s

    async def _ask(self, resolver: Resolver, kind: str) -> tuple[list[Any], float]:
        answer = await resolver.resolve(self.host, kind, raise_on_no_answer=False, search=True)
        return list(answer.rrset or ()), float(answer.chaining_result.minimum_ttl)

    def _replicas(self, places: list[tuple[str, int]]) -> list[Found]:
        found = []
        for host, port in places:
            where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            one = usable(self.name, where, f"{self.scheme}://{where}")
            if one is not None:
                found.append(one)
        return found
