"""What is written to a replica is one request, whoever asks for it."""

import pytest

from trioroute.proxy.upstream.error import UpstreamError
from trioroute.proxy.upstream.message import Outgoing

HOST = (b"host", b"replica")


@pytest.mark.parametrize(
    "bad",
    [
        Outgoing("post /sleep HTTP/1.1 x", b"/v1/models", [HOST]),
        Outgoing("", b"/v1/models", [HOST]),
        Outgoing("GÉT", b"/v1/models", [HOST]),
        Outgoing("GET\r\nx:", b"/v1/models", [HOST]),
        Outgoing("GET", b"/v1/x HTTP/1.1", [HOST]),
        Outgoing("GET", b"", [HOST]),
        Outgoing("GET", b"/v1/\x01", [HOST]),
        Outgoing("GET", b"/v1/\xff", [HOST]),
        Outgoing("GET", b"/v1/a\rb", [HOST]),
        Outgoing("GET", b"/v1/models", [HOST, (b"x-a(b", b"v")]),
        Outgoing("GET", b"/v1/models", [HOST, (b"transfer-encoding: chunked, x", b"v")]),
        Outgoing("GET", b"/v1/models", [HOST, (b"", b"v")]),
        Outgoing("GET", b"/v1/models", [HOST, (b"x-a\nx-b", b"v")]),
        Outgoing("GET", b"/v1/models", [HOST, (b"x-a", b"a\r\nb: c")]),
    ],
    ids=str,
)
def test_what_would_be_read_as_another_request_is_not_written(bad: Outgoing) -> None:
    with pytest.raises(UpstreamError) as caught:
        bad.head()
    assert (caught.value.cause, caught.value.local) == ("protocol", True)


def test_a_good_one_is_written_as_it_is() -> None:
    good = Outgoing("M-SEARCH", b"/v1/models?a=%20", [HOST, (b"X-Odd", b"\t\xff")])
    assert (
        good.head()
        == b"M-SEARCH /v1/models?a=%20 HTTP/1.1\r\nhost: replica\r\nX-Odd: \t\xff\r\n\r\n"
    )
