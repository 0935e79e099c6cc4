"""What the commands say where the admin port gives no answer: the trouble and what helps."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.certificates import self_signed
from trioroute.cli.replica import replica_command
from trioroute.cli.top import top_command

Command = Callable[[str], str]


@pytest.fixture
def tls_port(tmp_path: Path) -> Iterator[int]:
    """Speaks TLS with a certificate that nobody trusts, and no HTTP."""
    pair = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.settimeout(5)
                    try:
                        context.wrap_socket(peer, server_side=True).close()
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def listed(admin: str) -> str:
    return CliRunner().invoke(replica_command, ["list", "--admin", admin]).output


def topped(admin: str) -> str:
    return CliRunner().invoke(top_command, ["--once", "--admin", admin]).output


@pytest.mark.parametrize("ask", [listed, topped])
def test_a_certificate_that_is_not_trusted_is_said_with_the_option(
    tls_port: int, ask: Command
) -> None:
    said = ask(f"https://127.0.0.1:{tls_port}")
    assert "not trusted" in said
    assert "--ca-file" in said
    assert "start the router" not in said


@pytest.mark.parametrize("ask", [listed, topped])
def test_plain_http_to_a_port_with_tls_is_said(tls_port: int, ask: Command) -> None:
    said = ask(f"http://127.0.0.1:{tls_port}")
    assert "https://" in said
    assert "start the router" not in said


@pytest.mark.parametrize("ask", [listed, topped])
def test_where_nobody_listens_the_reason_is_not_empty(ask: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    said = ask(f"http://127.0.0.1:{port}")
    assert ": ;" not in said
    assert "start the router" in said
