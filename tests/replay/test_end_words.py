"""An end is told by what the replica did; what the client got is said apart."""

from typing import get_args

import pytest

from tests.replay.prevented import told_of
from tests.rig import Rig
from trioroute.events.words import Cause, Outcome
from trioroute.replay.end_words import end_words, what_happened


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (("ok", "none", "none", 200), "ok"),
        (("ok", "none", "none", 204), "ok (the replica answered 204)"),
        (
            ("first_byte_timeout", "timeout", "replica", None),
            "first_byte_timeout (the replica sent nothing in time, held against it)",
        ),
        (
            ("idle_timeout", "timeout", "router", 200),
            "idle_timeout (timeouts.total was over in the middle of the answer)",
        ),
        (
            ("failed", "refused", "replica", None),
            "failed (the replica refused the connection, held against it)",
        ),
        (("failed", "status", "none", 503), "failed (the replica answered 503: busy)"),
        (("failed", "timeout", "router", None), "failed (the log took nothing in time)"),
        (
            ("upstream_error", "error_event", "replica", 500),
            "upstream_error (the replica answered 200 with an error 500 in it, held against it)",
        ),
        (
            ("upstream_error", "status", "router", 401),
            "upstream_error (the replica answered 401 to the router's own key)",
        ),
        (
            ("client_gone", "cancelled", "client", None),
            "client_gone (its client left, before the replica answered)",
        ),
        (
            ("client_gone", "cancelled", "client", 200),
            "client_gone (its client left, after the replica answered 200)",
        ),
        (("unknown", "none", "router", 200), "unknown (an error of the router's own)"),
    ],
)
def test_an_end_says_who_did_what(
    end: tuple[str, str | None, str | None, int | None], text: str
) -> None:
    assert end_words(*end) == text


def test_a_head_without_a_body_is_no_answer() -> None:
    said = end_words("first_byte_timeout", "timeout", "replica", 200, judged=False)
    did = "the replica answered 200, but no byte of the body came in time"
    assert said == f"first_byte_timeout ({did})"
    said = end_words("first_byte_timeout", "timeout", "router", 200)
    did = "timeouts.total was over before the replica sent a byte of the body"
    assert said == f"first_byte_timeout ({did})"


def test_every_end_that_was_no_answer_has_a_clause() -> None:
    for outcome in (*get_args(Outcome), "failed"):
        for cause in get_args(Cause):
            for blame, status in (("replica", 200), ("router", None), ("client", 200)):
                said = what_happened("gpu1", outcome, cause, blame, status)
                assert bool(said) or cause == "none", (outcome, cause, blame, status)
                assert not said.startswith((",", " "))


def test_a_failure_says_what_the_replica_did_and_what_the_client_got() -> None:
    rig = Rig().live("a")
    flown = rig.go()
    rig.finish(flown, "first_byte_timeout", status=200)
    cause = told_of(rig).first_cause
    assert cause is not None
    assert cause.text == (
        f"r1/{flown.number} failed: a answered 200, but no byte of the body came in time; its "
        "client got 504 first_byte_timeout"
    )
