"""The generator counts right responses only, against a server that answers what it is told."""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import attrs
import pytest

from tests.bench.load import Generator, Load, RunFailedError, parse_outcome
from tests.bench.upstream import Upstream

MARK = b"[t=%020d]"
NONE_WRONG = {"connect": 0, "status": 0, "length": 0, "marks": 0, "cut": 0, "protocol": 0}


def mark(ahead_ns: int = 0) -> bytes:
    return MARK % (time.monotonic_ns() + ahead_ns)


def plain(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


def chunked(*parts: bytes) -> bytes:
    framed = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + framed


@contextmanager
def serving(*answers: Sequence[bytes]) -> Iterator[int]:
    """One connection after the other gets its pieces, in separate sends, then is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)

        def serve() -> None:
            for pieces in answers:
                connection, _ = listener.accept()
                with connection:
                    read_request(connection)
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    for piece in pieces:
                        connection.sendall(piece)
                        time.sleep(0.01)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join()


def read_request(connection: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got:
        got += connection.recv(65536)
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split()[0])
    while len(body) < length:
        body += connection.recv(65536)
    return body


def wrong(**kinds: int) -> dict[str, int]:
    return {**NONE_WRONG, **kinds}


def ask(generator: Generator, answers: Sequence[Sequence[bytes]], load: Load) -> object:
    with serving(*answers) as port:
        load = attrs.evolve(load, conns=len(answers), once=True, warmup_ms=0, ms=700)
        outcome = generator.run(port, load)
    return outcome.done, dict(outcome.errors)


def test_a_whole_response_of_the_right_length_with_its_mark_counts(generator: Generator) -> None:
    body = mark() + b"x" * 76
    load = Load(1, "reply=100", length=100, marks=1)
    assert ask(generator, [[plain(body)]] * 3, load) == (3, NONE_WRONG)


@pytest.mark.parametrize(
    "answer, kind",
    [
        (plain(mark() + b"x" * 76, b"502 Bad Gateway"), "status"),
        (plain(mark() + b"x" * 77), "length"),
        (plain(b"x" * 100), "marks"),
        (plain(mark() * 2 + b"x" * 52), "marks"),
        (plain(mark(10**17) + b"x" * 76), "marks"),
        (plain(mark() + b"x" * 76)[:-1], "cut"),
        (b"", "cut"),
        (b"SMTP here\r\n\r\n", "protocol"),
        (plain(mark() + b"x" * 76) + b"more", "protocol"),
    ],
)
def test_what_is_wrong_is_an_error_of_its_kind_and_not_counted(
    generator: Generator, answer: bytes, kind: str
) -> None:
    load = Load(1, "reply=100", length=100, marks=1)
    good = plain(mark() + b"x" * 76)
    assert ask(generator, [[good], [answer], [good]], load) == (2, wrong(**{kind: 1}))


def test_a_stream_counts_with_all_its_events_however_it_is_cut_into_pieces(
    generator: Generator,
) -> None:
    whole = chunked(b"data: " + mark() + b"\n\n", b"data: " + mark() + b"\n\n", b"data: [DONE]\n\n")
    pieces = [whole[at : at + 7] for at in range(0, len(whole), 7)]
    load = Load(1, "chunks=2", stream=True, marks=2)
    assert ask(generator, [[whole], pieces], load) == (2, NONE_WRONG)


def test_a_stream_that_ends_early_or_never_ends_is_wrong(generator: Generator) -> None:
    early = chunked(b"data: " + mark() + b"\n\n")
    cut = chunked(b"data: " + mark() + b"\n\n", b"data: " + mark() + b"\n\n")[:-5]
    load = Load(1, "chunks=2", stream=True, marks=2)
    assert ask(generator, [[early], [cut]], load) == (0, wrong(marks=1, cut=1))


def test_a_port_where_nobody_listens_is_a_connect_error(generator: Generator) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    load = Load(2, "reply=100", once=True, warmup_ms=0, ms=100)
    outcome = generator.run(port, load)
    assert (outcome.done, dict(outcome.errors)) == (0, wrong(connect=2))
    with pytest.raises(RunFailedError, match="2 connect"):
        outcome.checked()


def test_it_counts_as_many_as_the_upstream_served(generator: Generator, replicas: Upstream) -> None:
    load = Load(8, "reply=300", 5000, length=300, marks=1, warmup_ms=0, ms=300)
    outcome = generator.run(replicas.ports[0], load).checked()
    assert outcome.begun - outcome.done <= 8
    assert outcome.done > 100
    assert abs(replicas.stats()["completed"] - outcome.begun) <= 9
    assert outcome.latency.count == outcome.done
    assert outcome.bytes == 300 * outcome.done


def test_latency_is_the_time_until_the_whole_answer(
    generator: Generator, replicas: Upstream
) -> None:
    load = Load(4, "reply=300 first_us=50000", length=300, marks=1, warmup_ms=0, ms=600)
    latency = generator.run(replicas.ports[0], load).checked().latency
    assert 49_000 <= latency.p50 <= 200_000
    assert latency.p50 <= latency.p90 <= latency.p99


def test_quantiles_are_right_within_a_thousandth(generator: Generator) -> None:
    """Added time to first byte is what is left of them when the upstream's 20 ms are taken off."""
    for past_s in (1.0, 1.03, 1.07, 1.11, 1.17, 1.23):
        with serving([plain(mark(-int(past_s * 1e9)) + b"x" * 76)]) as port:
            load = Load(1, "reply=100", length=100, marks=1, once=True, warmup_ms=0, ms=300)
            transit = generator.run(port, load).checked().transit
        assert transit.p50 == pytest.approx(transit.max, rel=0.001)


def test_an_open_loop_keeps_its_rate(generator: Generator, replicas: Upstream) -> None:
    load = Load(8, "reply=300", length=300, marks=1, warmup_ms=100, ms=1000, rate=100)
    outcome = generator.run(replicas.ports[0], load).checked()
    assert 80 <= outcome.done <= 120


def test_figures_of_too_many_wrong_responses_are_refused() -> None:
    line = (
        '{"seconds":1,"done":900,"begun":1000,"chunks":0,"late":0,"gone":0,"bytes":1,"last_status":503,'
        '"errors":{"status":100},'
        + ",".join(
            f'"{name}":{{"count":0,"mean":0,"p50":0,"p90":0,"p99":0,"max":0}}'
            for name in ("latency", "first_byte", "transit", "gap")
        )
        + "}"
    )
    outcome = parse_outcome(line)
    with pytest.raises(RunFailedError, match="100 status, status 503; right: 900"):
        outcome.checked()
    assert attrs.evolve(outcome, errors={"status": 0}).checked().done == 900


def test_a_part_of_the_clients_leaves_within_the_time(
    generator: Generator, replicas: Upstream
) -> None:
    spec = "chunks=4 first_us=20000 gap_us=20000"
    load = Load(32, spec, stream=True, marks=4, warmup_ms=0, ms=1500)
    load = attrs.evolve(load, leave_ms=60, leave_permille=300)
    outcome = generator.run(replicas.ports[0], load).checked()
    assert 0.1 < outcome.gone / outcome.begun < 0.5
    assert outcome.done > outcome.gone
    assert replicas.stats()["aborted"] >= outcome.gone
