"""Damaged bodies and pages: the readers beside the stream find something or nothing, never fail."""

import json
import math
import random

import pytest

from tests.proxy.mutations import CASES, TIMEOUT_S, cases, cut
from tests.proxy.replies import DONE, GOOD_STREAM, error, event, token
from tests.rig import MakeRig
from tests.scrape.servers import UNDER_LOAD
from trioroute.proxy.bodies.facts import Facts, read_facts
from trioroute.proxy.body import UnusableBody, multipart_model, read_json
from trioroute.proxy.intake import Intake
from trioroute.proxy.paths import route
from trioroute.proxy.tap import Tap, aborted, error_in_events
from trioroute.scrape.exposition import Scanner, UnreadablePage
from trioroute.scrape.vllm import WANTED, fold

pytestmark = pytest.mark.timeout(TIMEOUT_S)

USAGE = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}})
STREAMS = (
    b"".join((*GOOD_STREAM[:2], USAGE, DONE)),
    b": ping\r\n\r\nevent: x\r\n" + token("\U0001f600 \u2028") + error(503) + DONE,
    b'event: message_start\ndata: {"usage":{"input_tokens":3}}\n\n' + token("", "abort"),
    b'{"id":"resp_1","usage":{"prompt_tokens":1,"completion_tokens":2}}',
)
IN_STREAMS = (
    *(b"\n\n", b"\r\n", b"\r", b"data:", b"data: [DONE]\n\n", b'"usage":{', b"}", b"{", b'"error"'),
    *(b"[" * 200, b'{"a":' * 100, b'"finish_reason":"abort"', b"\xf0\x9f", b"\xe2\x80\xa8", b":"),
    *(b"1e999", b"-1", b"null", b'"code":', b'"completion_tokens":', b"99999999999999999999"),
)


def told_by(tap: Tap) -> tuple[object, ...]:
    return (
        *(tap.usage(), tap.aborted(), tap.error_at_end(), tap.done(), tap.has_event()),
        *(tap.at_event_border(), tap.response_id(), tap.tail(), tap.bytes),
    )


def test_fuzz_the_tap_finds_the_same_in_any_pieces() -> None:
    chance = random.Random("tap")
    with_usage = 0
    for data in cases("streams", STREAMS, IN_STREAMS, CASES):
        whole, pieces = Tap(), Tap()
        whole.feed(data)
        for piece in cut(chance, data):
            pieces.feed(piece)
        assert told_by(whole) == told_by(pieces), data
        usage = whole.usage()
        assert all(count is None or 0 <= count < 10**12 for count in usage)
        with_usage += usage != (None, None)
        aborted(data)
        code = error_in_events(data)
        assert code is None or 400 <= code <= 599
    assert with_usage > CASES / 5


BODIES = tuple(
    json.dumps(body).encode()
    for body in (
        {"model": "m", "messages": [{"role": "system", "content": "you"}], "session_id": "s"},
        {
            "model": "m",
            "input": [{"role": "developer", "content": [{"type": "text", "text": "x"}]}],
        },
        {"model": "m", "prompt": [[1, 2, 3], "text"], "metadata": {"session_id": 7}, "tools": [{}]},
        {"model": "m", "previous_response_id": "resp_1", "documents": ["a", {"text": "\ud800"}]},
    )
)
IN_BODIES = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\ud800", b"\\udc00", b"\xef\xbb\xbf"),
    *(b"NaN", b"null", b"true", b"1e999", b"-0", b"[" * 300, b'{"a":' * 300, b"\xff", b"\x00"),
    *(b'"messages":', b'"content":', b'"role":"system"', b"1" * 400, b'"session_id":', b"{}"),
)
TYPES = (b"application/json", b"text/json; x", b"multipart/form-data; boundary=b", b"text/plain")


@pytest.mark.parametrize("policy", ["soft-sticky", "least-work"])
def test_fuzz_a_body_has_a_profile_or_a_refusal(make_rig: MakeRig, policy: str) -> None:
    chance = random.Random("bodies")
    rig = make_rig(policy={"name": policy}).live("a")
    chat = route("POST", "/v1/chat/completions")
    good, codes = 0, set[str]()
    for data in cases("bodies", BODIES, IN_BODIES, CASES // 2):
        headers = [(b"content-type", chance.choice(TYPES) if chance.random() < 0.1 else TYPES[0])]
        question = Intake(rig.state, b"s" * 32, "POST", chat, headers).question()
        try:
            facts = read_facts(question, data)
        except UnusableBody as unusable:
            codes.add(unusable.error.code)
            continue
        good += 1
        assert isinstance(facts, Facts)
        found = facts.profile
        assert found.prompt_bytes >= 0
        assert read_facts(question, data) == facts
        assert len(found.session or "") in (0, 24)
    assert good > CASES / 20
    assert codes <= {"invalid_request", "model_not_found"}
    with pytest.raises(UnusableBody):
        read_json(b"[" * 100_000)


FORM = (
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n\x00\x01\r\n'
    b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b--\r\n'
)
IN_FORM = (b"--b", b"\r\n--b", b"\r\n\r\n", b'name="model"', b"--b--", b"\r\n", b"name=", b'"')


def test_fuzz_a_form_has_a_model_or_none() -> None:
    headers = [(b"content-type", b"multipart/form-data; boundary=b")]
    found = [multipart_model(headers, data) for data in cases("forms", (FORM,), IN_FORM, CASES)]
    assert found.count("m") > CASES / 10
    assert found.count(None) > CASES / 10


IN_PAGES = (
    *(b"\n", b"\r\n", b" ", b"{", b"}", b'"', b"\\", b"NaN", b"+Inf", b"1e308", b"-1", b"0x10"),
    *(b"1_000", b"# TYPE x counter\n", b"vllm:num_requests_running", b'{engine="0"}', b"\xff"),
    *(b"vllm:num_requests_waiting 3\n", b"<html>", b" 1 2 3", b'engine="1",', b"\x85", b"9" * 400),
)


def test_fuzz_a_page_is_read_the_same_in_any_pieces() -> None:
    chance = random.Random("pages")
    wanted = [line for line in UNDER_LOAD.split(b"\n") if line.startswith(b"vllm:")][:60]
    pages = (b"\n".join(wanted), b"\n".join(wanted[:6]) + b"\n", b"# HELP x\nx 1\n")
    known = 0
    for data in cases("pages", pages, IN_PAGES, CASES):
        found: list[object] = []
        for pieces in ([data], cut(chance, data)):
            scanner = Scanner(WANTED)
            try:
                for piece in pieces:
                    scanner.feed(piece)
                found.append(fold(scanner.finish()))
            except UnreadablePage:
                found.append(UnreadablePage)
        assert found[0] == found[1], data
        reading = found[0]
        if reading is UnreadablePage:
            continue
        for name in ("running", "waiting", "kv_m", "tokens"):
            value = getattr(reading, name)
            assert value is None or (type(value) is int and value >= 0 and math.isfinite(value))
            known += value is not None
    assert known > CASES
