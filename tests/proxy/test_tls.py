"""A certificate that is renewed while a port serves: new handshakes get it, the others go on."""

import ssl
from pathlib import Path

import httpx
import pytest
import trio

from tests.certificates import self_signed
from tests.proxy.serving import Recorder, port_tls, serving


def causes(error: BaseException | None) -> str:
    return f"{error!r} < {causes(error.__cause__ or error.__context__)}" if error else ""


@pytest.mark.parametrize("http2", [False, True])
async def test_new_handshakes_get_the_new_certificate_and_open_connections_go_on(
    tmp_path: Path, http2: bool
) -> None:
    old, new = self_signed(tmp_path, "old"), self_signed(tmp_path, "new")
    tls = port_tls(old)
    app = Recorder()
    async with serving(app, tls=tls) as server:
        url = f"https://127.0.0.1:{server.port}/"
        async with httpx.AsyncClient(verify=old.client(), http2=http2) as before:
            assert (await before.post(url, content=b"1")).content == b"1"
            tls.context = port_tls(new).context
            assert (await before.post(url, content=b"2")).content == b"2"
            async with httpx.AsyncClient(verify=new.client(), http2=http2) as after:
                reply = await after.post(url, content=b"3")
            assert reply.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
            async with httpx.AsyncClient(verify=old.client(), http2=http2) as late:
                with pytest.raises(httpx.ConnectError) as refused:
                    await late.get(url)
                assert "CERTIFICATE_VERIFY_FAILED" in causes(refused.value)
    first, second, third = (scope["client"] for scope in app.scopes)
    assert first == second != third


async def test_a_resumed_session_does_not_bring_the_old_certificate_back(tmp_path: Path) -> None:
    old, new = self_signed(tmp_path, "old"), self_signed(tmp_path, "new")
    tls = port_tls(old)
    trusting = old.client()
    trusting.load_verify_locations(new.cert)
    trusting.maximum_version = ssl.TLSVersion.TLSv1_2  # there a session is known at once
    async with serving(Recorder(), tls=tls) as server:

        async def shown(session: ssl.SSLSession | None) -> tuple[object, object, bool]:
            sock = await trio.open_tcp_stream("127.0.0.1", server.port)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            asking = trusting.wrap_bio(
                incoming, outgoing, server_hostname="localhost", session=session
            )
            async with sock:
                while True:
                    try:
                        asking.do_handshake()
                    except ssl.SSLWantReadError:
                        await sock.send_all(outgoing.read())
                        incoming.write(await sock.receive_some())
                    else:
                        await sock.send_all(outgoing.read())
                        break
            return asking.session, asking.getpeercert(binary_form=True), asking.session_reused

        session, first, _ = await shown(None)
        assert isinstance(session, ssl.SSLSession)
        assert (await shown(session))[1:] == (first, True)
        tls.context = port_tls(new).context
        _, second, reused = await shown(session)
        assert (second != first, reused) == (True, False)
