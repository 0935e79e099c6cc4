"""DNS by a scripted name server over UDP: addresses, targets, TTLs, and names without an answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import dns.asyncresolver
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
import trio

from tests.discovery.told import watched
from trioroute.discovery.dns import DnsSource

NAME = "vllm.example."
SERVICE = "_http._tcp.vllm.example."


@attrs.define
class NameServer:
    """``zone`` has the records by name and kind, ``ttl_s`` is that of all."""

    zone: dict[tuple[str, str], list[str]]
    ttl_s: int = 1
    rcode: dns.rcode.Rcode = dns.rcode.NOERROR
    silent: bool = False
    port: int = 0
    asked: list[str] = attrs.field(factory=list)

    def resolver(self) -> dns.asyncresolver.Resolver:
        made = dns.asyncresolver.Resolver(configure=False)
        made.nameservers = ["127.0.0.1"]
        made.port = self.port
        return made

    def answer(self, raw: bytes) -> bytes:
        query = dns.message.from_wire(raw)
        (question,) = query.question
        name, kind = question.name.to_text(), dns.rdatatype.to_text(question.rdtype)
        self.asked.append(kind)
        response = dns.message.make_response(query)
        response.flags |= dns.flags.RA
        response.set_rcode(self.rcode)
        records = self.zone.get((name, kind))
        if records and self.rcode == dns.rcode.NOERROR:
            response.answer.append(dns.rrset.from_text(name, self.ttl_s, "IN", kind, *records))
        return bytes(response.to_wire())


@asynccontextmanager
async def serving(server: NameServer) -> AsyncIterator[NameServer]:
    with trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM) as sock:
        await sock.bind(("127.0.0.1", 0))
        server.port = sock.getsockname()[1]

        async def serve() -> None:
            while True:
                raw, peer = await sock.recvfrom(4096)
                if not server.silent:
                    await sock.sendto(server.answer(raw), peer)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            yield server
            nursery.cancel_scope.cancel()


def source(server: NameServer, host: str = NAME, port: int = 8000) -> DnsSource:
    return DnsSource(host, port, make=server.resolver, retry_s=0.05)


async def test_each_address_is_a_replica_and_the_ttl_says_when_to_ask_again() -> None:
    zone = {(NAME, "A"): ["10.0.0.2", "10.0.0.1"], (NAME, "AAAA"): ["fd00::1"]}
    async with serving(NameServer(zone)) as server:
        began = trio.current_time()
        async with watched(source(server)) as told:
            await told.lists("10.0.0.1:8000", "10.0.0.2:8000")
            assert set(server.asked) == {"A"}
            zone[NAME, "A"] = ["10.0.0.3"]
            server.ttl_s = 100
            await told.lists("10.0.0.3:8000")
            assert trio.current_time() - began >= 0.9
            zone[NAME, "A"] = ["10.0.0.4"]
            asked = [*server.asked]
            await trio.sleep(1.5)
            assert server.asked == asked
    assert [one.url for one in told.now or ()] == ["http://10.0.0.3:8000"]


async def test_ipv6_counts_where_there_is_no_ipv4() -> None:
    async with serving(NameServer({(NAME, "AAAA"): ["fd00::1"]})) as server:
        async with watched(source(server)) as told:
            await told.lists("[fd00::1]:8000")


async def test_each_srv_target_is_a_replica_at_its_port() -> None:
    records = ["0 10 8000 pod-a.vllm.example.", "0 10 8001 pod-b.vllm.example."]
    async with serving(NameServer({(SERVICE, "SRV"): records})) as server:
        async with watched(source(server, SERVICE, 0)) as told:
            await told.lists("pod-a.vllm.example:8000", "pod-b.vllm.example:8001")
            records.pop()
            await told.lists("pod-a.vllm.example:8000")


@pytest.mark.parametrize(
    "rcode, why",
    [
        (dns.rcode.NXDOMAIN, "does not exist"),
        (dns.rcode.SERVFAIL, "cannot be resolved: NoNameservers"),
        (dns.rcode.NOERROR, "has no address"),
    ],
)
async def test_a_name_without_an_answer_is_an_outage_that_ends(
    rcode: dns.rcode.Rcode, why: str
) -> None:
    zone: dict[tuple[str, str], list[str]] = {}
    async with serving(NameServer(zone, rcode=rcode)) as server:
        async with watched(source(server)) as told:
            await told.fails(why)
            server.rcode = dns.rcode.NOERROR
            zone[NAME, "A"] = ["10.0.0.1"]
            await told.lists("10.0.0.1:8000")


async def test_a_service_that_is_decidedly_not_there_is_an_outage() -> None:
    async with serving(NameServer({(SERVICE, "SRV"): ["0 0 0 ."]})) as server:
        async with watched(source(server, SERVICE, 0)) as told:
            await told.fails("has no SRV record")
