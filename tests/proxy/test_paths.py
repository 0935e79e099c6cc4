"""Which paths are served, and what they mean."""

import pytest

from trioroute.proxy.paths import BARE, INFERENCE, Route, route


@pytest.mark.parametrize("path", sorted(INFERENCE))
def test_only_a_post_there_runs_a_prompt(path: str) -> None:
    shape = path.startswith("/v1/messages")
    assert route("POST", path) == Route(True, inference=True, repeatable=True, anthropic=shape)
    for method in ("DELETE", "PUT", "PATCH", "post", "FROB"):
        assert route(method, path) == Route(True, False, repeatable=False, anthropic=shape)
    for method in ("GET", "HEAD", "OPTIONS"):
        assert route(method, path) == Route(True, False, repeatable=True, anthropic=shape)


def test_the_bare_paths_are_inference_too() -> None:
    assert BARE <= INFERENCE


@pytest.mark.parametrize(
    "path",
    [
        "/v1/files",
        "/v1/chat/completions/",
        "/v1/chat",
        "/v1/anything/else",
        "/v1/load_lora_adapter",
        "/v1/",
    ],
)
def test_other_paths_are_served_and_not_repeated(path: str) -> None:
    assert route("POST", path) == Route(True, inference=False, repeatable=False)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "*",
        "/",
        "/v1",
        "/v10/x",
        "/V1/models",
        "/v2/x",
        "/metrics",
        "/sleep",
        "/tokenize/x",
        "/v1/../sleep",
        "/v1/..",
        "/v1/x/./y",
        "/v1/.",
    ],
)
def test_what_is_not_served(path: str) -> None:
    assert not route("GET", path).proxied
    assert not route("POST", path).proxied


def test_dots_in_names_are_no_dot_segments() -> None:
    assert route("GET", "/v1/models/llama-3.1/..x").model == "llama-3.1/..x"
    assert route("GET", "/v1/.hidden").proxied


def test_trace_is_not_served() -> None:
    assert not route("TRACE", "/v1/chat/completions").proxied


def test_what_a_path_names() -> None:
    assert route("GET", "/v1/models/org/m").model == "org/m"
    assert route("GET", "/v1/models/").model is None
    assert route("GET", "/v1/responses/resp_1").response_id == "resp_1"
    assert route("GET", "/v1/responses/resp_1/input_items").response_id == "resp_1"
    assert route("POST", "/v1/responses/").response_id is None
    assert route("POST", "/v1/responses").response_id is None
