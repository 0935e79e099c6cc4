"""A body tells the same wherever it is read: here, or in the process that reads large ones."""

import gzip
import random

import attrs
import pytest

from tests.proxy.mutations import CASES, TIMEOUT_S, cases
from tests.proxy.questions import JSON, SECRET, prompt, question, read_here
from tests.proxy.test_fuzz_readers import BODIES, FORM, IN_BODIES, IN_FORM
from trioroute.policy.keys import digest_key
from trioroute.policy.profile import Profile
from trioroute.proxy.bodies.facts import Facts, Nameless
from trioroute.proxy.bodies.frames import (
    ANSWER,
    QUESTION,
    Answer,
    pack_answer,
    pack_question,
    unpack_answer,
    unpack_question,
)
from trioroute.proxy.bodies.process import start
from trioroute.proxy.errors import RouterError

pytestmark = pytest.mark.timeout(TIMEOUT_S)

KINDS = (b"application/json", b"multipart/form-data; boundary=b", b"text/plain", b"\xff/json")
SESSIONS = (b"x-session-id", b"session-id", b"x-unasked", b"x-project-id")


async def test_fuzz_the_body_reader_finds_what_this_process_finds() -> None:
    chance = random.Random("body reader")
    seen: set[str] = set()
    child = await start()
    try:
        bodies = cases("there", (*BODIES, FORM), (*IN_BODIES, *IN_FORM), CASES // 2)
        for number, body in enumerate(bodies):
            headers = [(b"content-type", chance.choice(KINDS) if number % 3 == 0 else KINDS[0])]
            if number % 5 == 0:
                headers.append((chance.choice(SESSIONS), chance.randbytes(5)))
            if number % 7 == 0:
                headers.append((b"content-encoding", chance.choice((b"gzip", b"br", b"zip"))))
                body = gzip.compress(body)
            asked = question(
                headers=headers,
                inference=chance.random() < 0.8,
                model=chance.choice((None, None, None, "named")),
                response_id=chance.choice((None, None, "resp_1")),
                project=chance.choice(("", "p")),
                otherwise=chance.choice(("", "m", None)),
                models={"aliases": chance.choice(({}, {"m": "n", "n": "o"}))},
                pins={"prefix_chars": chance.choice((2, 4096))},
                server={"max_body_bytes": chance.choice((100, 64 << 20))},
                policy={"name": chance.choice(("soft-sticky", "least-work"))},
            )
            here = read_here(asked, body)
            assert (await child.ask(pack_question(asked, len(body)), body)).found == here, (
                asked,
                body,
            )
            seen.add(here.code if isinstance(here, RouterError) else type(here).__name__)
    finally:
        await child.close()
    assert {"Facts", "Nameless", "invalid_request", "body_too_large"} <= seen
    assert "unsupported_encoding" in seen


async def test_the_blocks_of_a_large_prompt_are_the_same_there() -> None:
    asked = question(policy={"name": "least-work"})
    child = await start()
    try:
        for body in (prompt(3_000_000), prompt(300_000, tools=[{"a": ["b"] * 1000}], stream=True)):
            there = (await child.ask(pack_question(asked, len(body)), body)).found
            assert there == read_here(asked, body)
            assert isinstance(there, Facts)
            assert len(there.profile.blocks) == min(512, there.profile.prompt_bytes // 2048)
    finally:
        await child.close()


def test_a_question_and_an_answer_survive_the_socket() -> None:
    headers = [JSON, (b"x-session-id", b"\xff\x00"), (b"authorization", b"Bearer secret")]
    asked = question(headers, models={"aliases": {"a": "\ud800"}}, pins={"prefix_chars": 7})
    data = pack_question(asked, 7)
    words, size = QUESTION.unpack(data[: QUESTION.size])
    assert (size, len(data)) == (7, QUESTION.size + words)
    assert b"authorization" not in data
    back = unpack_question(data[QUESTION.size :])
    assert [*back.headers] == headers[:2]
    assert attrs.evolve(back, headers=headers) == asked
    for found in (
        Facts(Profile("\ud800", 5, None, "x", "y", (1, 1 << 47)), True),
        Nameless(None),
        Nameless("x"),
        RouterError("invalid_request", "no \ud800", "model"),
        RouterError("overloaded", "why", None, 1),
    ):
        packed = pack_answer(Answer(found, leaves=True))
        assert unpack_answer(packed[ANSWER.size :]) == Answer(found, leaves=True)


@pytest.mark.parametrize("words", [b"", b"\xff", b"{}", b"5", b"[]", b'{"found":{}}'])
def test_what_is_no_answer_is_a_value_error(words: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack_answer(words)


def test_a_follow_up_without_a_model_names_the_response() -> None:
    body = b'{"previous_response_id":"resp_1","input":"x"}'
    digest = digest_key(SECRET, "response", "", "resp_1")
    assert read_here(question(otherwise=None), body) == Nameless(digest)
    assert read_here(question(otherwise=None, inference=False), b"{}") == Nameless(None)
