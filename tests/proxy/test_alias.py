"""Where a body names its model."""

import json

import pytest

from tests.proxy.mutations import CASES, TIMEOUT_S, cases
from tests.proxy.questions import JSON
from tests.proxy.test_fuzz_readers import BODIES, IN_BODIES
from trioroute.proxy.alias import (
    PIECE_BYTES,
    SPANS_MAX,
    _json_spans,
    _only_span,
    model_spans,
    pieces_with_model,
)
from trioroute.proxy.body import UnusableBody, read_json

pytestmark = pytest.mark.timeout(TIMEOUT_S)

NAMES = (b'"model"', b'"model":"x"', b'"model" : ["m"]', b'\\"model"', b'"m\\u006Fdel":"y",')

TWICE = b'{"model":"m","x":{"model":"y"},"model":"z"}'


def test_fuzz_the_short_way_to_the_model_finds_what_the_long_one_finds() -> None:
    short = several = 0
    for body in cases("aliases", (*BODIES, TWICE), (*IN_BODIES, *NAMES, *NAMES), 4 * CASES):
        try:
            parsed = read_json(body)
        except UnusableBody:
            continue
        if not isinstance(parsed.get("model"), str):
            assert model_spans([JSON], body, parsed) == ()
            continue
        spans = list(_json_spans(body))
        only = _only_span(body)
        assert only is None or [only] == spans, body
        assert list(model_spans([JSON], body, parsed)) == spans
        assert json.loads(body[slice(*spans[-1])]) == parsed["model"], body
        renamed = b"".join(pieces_with_model([JSON], body, spans, "other"))
        assert read_json(renamed) == {**parsed, "model": "other"}
        short += only is not None
        several += len(spans) > 1
    assert short > CASES / 20
    assert several > 5


def test_a_body_that_names_its_model_all_over_is_refused() -> None:
    body = b"{" + b'"model":"m",' * SPANS_MAX + b'"x":1}'
    assert len(model_spans([JSON], body, read_json(body))) == SPANS_MAX
    body = b'{"model":"n",' + body[1:]
    with pytest.raises(UnusableBody, match="more than 100 times"):
        model_spans([JSON], body, read_json(body))


def test_a_large_body_comes_in_pieces() -> None:
    body = b'{"x":"' + b"y" * 3 * PIECE_BYTES + b'","model":"m","z":"' + b"y" * PIECE_BYTES + b'"}'
    spans = model_spans([JSON], body, read_json(body))
    pieces = list(pieces_with_model([JSON], body, spans, "other"))
    assert max(map(len, pieces)) == PIECE_BYTES
    assert b"".join(pieces) == body.replace(b'"m"', b'"other"')
