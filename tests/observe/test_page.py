"""The dashboard needs no network, and nothing but its own script may run in it."""

import base64
import hashlib
import re

from tests.observe.rig import Rig
from trioroute.observe import view
from trioroute.observe.page import dashboard


def inline(tag: str) -> list[str]:
    return re.findall(rf"<{tag}>(.*?)</{tag}>", dashboard().body.decode(), re.DOTALL)


def test_the_policy_names_exactly_the_inline_script_and_style() -> None:
    policy = dashboard().policy.decode()
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (text,) = inline(tag)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = dashboard().body.decode()
    assert "//" not in text
    assert re.findall(r'(?:src|href)="([^"]*)"', text) == [
        "data:,",
        "/metrics",
        "/state",
        "/readyz",
    ]


def test_no_attribute_needs_what_the_policy_forbids() -> None:
    text = dashboard().body.decode()
    assert not re.search(r"<[^>]+\s(?:style|on[a-z]+)=", text)
    assert "innerHTML" not in text


def test_the_script_reads_only_fields_that_state_has() -> None:
    rig = Rig()
    rig.live("a")
    state = view(rig.state, rig.now_ms, rig.log, with_share=True, with_score=True)
    (script,) = inline("script")
    (row,) = re.findall(r"const replicaRow = .*?^};", script, re.DOTALL | re.MULTILINE)
    fields = set(re.findall(r"\breplica\.([a-z_]+)", row))
    assert fields <= set(state["replicas"][0])
    assert {"traffic_share", "cooldown_s", "wlc_in_flight"} <= fields
    used = set(re.findall(r"\bstate\.([a-z_]+)", script)) - {"append"}
    assert used <= set(state)


def test_the_script_finds_its_elements() -> None:
    text = dashboard().body.decode()
    (script,) = inline("script")
    wanted = set(re.findall(r'at\("([a-z]+)"\)', script))
    assert wanted <= set(re.findall(r'id="([a-z]+)"', text))
    assert "replicas" in wanted
