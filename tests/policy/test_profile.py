"""What the rules want to know of a request, taken from any shape of body."""

import hashlib
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trioroute.events.sections import Pins
from trioroute.policy.profile import (
    DEPTH_MAX,
    prefix_key,
    profile,
    prompt_bytes,
    session_key,
    system_prompt,
)

PINS = Pins()


def no_header(name: str) -> str | None:
    return None


def prefix(body: Any, chars: int = 4096) -> str | None:
    return prefix_key(body, chars)


def system(*contents: Any, role: str = "system") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for content in contents]}


def test_the_prefix_key_is_the_md5_of_the_first_characters() -> None:
    expected = hashlib.md5(b"x" * 4096, usedforsecurity=False).hexdigest()
    for length in (4096, 4097, 100_000):
        assert prefix(system("x" * length)) == expected
    assert prefix(system("x" * 4095)) != expected


@pytest.mark.parametrize(
    "body",
    [
        system("you are"),
        system("you are", role="developer"),
        system([{"type": "text", "text": "you are"}]),
        {"system": "you are"},
        {"system": [{"type": "text", "text": "you are", "cache_control": {}}]},
        {"instructions": "you are"},
        {"input": [{"role": "developer", "content": "you are"}]},
        {"input": [{"role": "system", "content": [{"type": "input_text", "text": "you are"}]}]},
        {"messages": [{"role": "user", "content": "hi"}, *system("you are")["messages"]]},
        system("", [], "you are", None),
    ],
)
def test_wherever_the_system_prompt_stands_it_is_found(body: Any) -> None:
    assert system_prompt(body, 4096) == "you are"
    assert prefix(body) == prefix({"system": "you are"})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": [{"role": "user", "content": "hi"}]},
        {"messages": "system"},
        {"messages": [None, 5, "x", [], {"role": ["system"]}, {"role": "system"}]},
        system(""),
        system(None, 5, {"text": 7}, [{"text": None}, {"type": "image_url"}]),
        {"system": None, "instructions": 5},
        {"input": "system"},
    ],
)
def test_without_a_system_prompt_there_is_no_prefix_key(body: Any) -> None:
    assert prefix(body) is None


def test_what_the_user_says_is_no_part_of_the_prefix() -> None:
    one = {"messages": [*system("you are")["messages"], {"role": "user", "content": "a"}]}
    other = {"messages": [*system("you are")["messages"], {"role": "user", "content": "b"}]}
    assert prefix(one) == prefix(other)


def test_characters_are_counted_and_not_bytes() -> None:
    assert prefix(system("é" * 10), 10) == prefix(system("é" * 11), 10)
    assert prefix(system("é" * 9), 10) != prefix(system("é" * 10), 10)
    assert prefix(system("\ud800")) is not None


def test_very_many_parts_take_no_more_than_their_number() -> None:
    """Counting anew at each part took minutes here."""
    body = system(*[""] * 50_000, [{"text": ""}] * 50_000, *["x"] * 5000)
    begin = time.perf_counter()
    assert prefix(body) is not None
    assert time.perf_counter() - begin < 2


def key(body: Any, headers: dict[str, str] | None = None) -> str | None:
    return session_key(body, (headers or {}).get, PINS)


def test_the_first_header_then_the_first_field() -> None:
    body = {"thread_id": "t", "conversation_id": "c", "prompt_cache_key": "p"}
    assert key(body) == "c"
    assert key(body, {"session-id": "h2", "x-kilo-session": "h1"}) == "h1"
    assert key(body, {"x-session-id": ""}) == "c"
    assert key({"prompt_cache_key": "p"}) == "p"
    assert key({"metadata": {"session_id": 0}}) == "0"


@pytest.mark.parametrize("odd", [None, "", True, False, 1.5, [], {}, {"x": 1}])
def test_other_kinds_of_values_are_no_key(odd: Any) -> None:
    assert key({"session_id": odd, "metadata": odd, "thread_id": odd}) is None


@pytest.mark.parametrize(
    ("body", "size"),
    [
        ({"prompt": "abc"}, 3),
        ({"prompt": ["ab", "c"]}, 3),
        ({"prompt": [1, 2, 3]}, 12),
        ({"prompt": [[1, 2], [3]]}, 12),
        ({"prompt": "é\U0001f600"}, 6),
        ({"prompt": "\ud800"}, 3),
        ({"messages": [{"role": "user", "content": "abc"}]}, 3),
        ({"messages": [{"content": [{"type": "text", "text": "abc"}, {"image_url": "x"}]}]}, 3),
        ({"messages": [{"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]}, 2),
        ({"input": [{"content": [{"text": "abc"}]}], "instructions": "de"}, 5),
        ({"system": [{"text": "abc"}], "messages": []}, 3),
        ({"query": "ab", "documents": ["c", {"text": "d"}]}, 4),
        ({"text_1": "ab", "text_2": ["cd"]}, 4),
        ({"model": "not counted", "user": "nor this"}, 0),
        ({"prompt": None, "messages": 5}, 0),
        ({}, 0),
    ],
)
def test_prompt_bytes(body: Any, size: int) -> None:
    assert prompt_bytes(body) == size


def test_depth_is_bounded() -> None:
    deep: Any = "x"
    for _ in range(DEPTH_MAX):
        deep = [deep]
    assert prompt_bytes({"prompt": deep}) == 1
    assert prompt_bytes({"prompt": [deep]}) == 0


def taken(body: Any, model: str = "m", project: str = "", secret: bytes = b"k") -> Any:
    return profile(
        body, no_header, model=model, project=project, settings=PINS, secret=secret, response="r"
    )


def test_a_profile_holds_digests_and_no_text() -> None:
    body = {**system("SECRET"), "session_id": "SECRET"}
    found = taken(body)
    assert "SECRET" not in repr(found)
    assert found.response == "r"
    assert found.prompt_bytes == 6
    assert len(found.session) == len(found.prefix) == 24
    assert found.session != found.prefix


@pytest.mark.parametrize("change", [{"model": "n"}, {"project": "p"}, {"secret": b"other"}])
def test_keys_are_of_a_model_a_project_and_a_secret(change: Any) -> None:
    body = {**system("you are"), "session_id": "s"}
    assert taken(body).prefix != taken(body, **change).prefix
    assert (taken(body).session == taken(body, **change).session) == ("project" in change)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "content", "text", "function", "session_id", "x"]), inner
        )
    ),
    max_leaves=20,
)
BODY = st.dictionaries(
    st.sampled_from(
        ["messages", "system", "input", "prompt", "metadata", "session_id", "documents"]
    ),
    JSON,
)


@settings(max_examples=60, deadline=None)
@given(BODY)
def test_no_shape_is_too_odd(body: Any) -> None:
    found = taken(body)
    assert found.prompt_bytes >= 0
    assert found == taken(body)
