"""The table of keys against the documentation and against the sections of the log."""

import contextlib
import tomllib
from collections.abc import Iterator
from datetime import date
from operator import attrgetter

import attrs
import pytest

from trioroute.events.sections import InForce
from trioroute.settings import KNOWN_KEYS, BadValue, KeyInfo
from trioroute.settings.errors import SHOWN_CHARS
from trioroute.settings.keys import nearest

# SETTINGS.md, number for number. Changing a default means changing it here, on purpose.
DOCUMENTED = """
[server]
name = "r1"
listen = "127.0.0.1:8080"
admin = "127.0.0.1:9090"
admin_token_env = ""
tls_cert = ""
tls_key = ""
admin_tls = false
max_body_bytes = "64MiB"
api_keys_file = ""
api_keys = []
forward_client_auth = true
reveal = true
cors_origins = []
graceful_timeout = "120s"
settle = "1s"
heartbeat = 0
access_log = "off"

[timeouts]
connect = "3s"
first_byte = "600s"
idle = "120s"
total = 0
client_stall = "60s"

[retries]
max = 2
budget = 0.2

[log]
path = "trioroute-log"
sync = "full"
gate = "first_byte"
gate_wait = "2s"
on_failure = "refuse"
buffer_entries = 100000
buffer_bytes = "64MiB"
segment_bytes = "256MiB"
segment_age = "24h"
retain_age = "14d"
retain_bytes = "20GiB"
archive = ""

[policy]
name = "soft-sticky"
load = "counted"
slack = { session = 1, prefix = 0 }

[wlc]
unit_tokens = 1000
bytes_per_token = 4

[pins]
session_headers = ["x-session-id", "x-kilo-session", "x-claude-code-session-id", "session-id",
  "session_id", "thread-id", "x-session-affinity", "x-litellm-session-id"]
session_fields = ["conversation_id", "thread_id", "session_id", "metadata.session_id",
  "prompt_cache_key"]
project_header = "x-project-id"
session_ttl = "60m"
prefix_ttl = "5m"
prefix_chars = 4096
spills_to_rebind = 3
force_rebind = 3
prefix_spills_to_drop = 2
max = 100000

[scrape]
interval = "3s"
timeout = "2s"
stale_after = 3

[scrape.generic]
path = "/metrics"
running = ""
waiting = ""
kv = ""
tokens = ""

[eject]
scrape_failures = 2
request_failures = 3
cooldown = "30s"
cooldown_max = "300s"
streak_window = "10m"
streak_reset = "600s"
stall_after = "60s"
stream_grace = "10s"
busy_default = "1s"

[probing]
good_scrapes = 2
window = "15s"
max_in_flight = 4

[admission]
max_wait = "5s"
max_waiting = 512
max_in_flight = 0

[replica]
models = []
engine = "vllm"
api_key_env = ""

[models]
aliases = {}

[discovery.file]
path = ""

[discovery.dns]
name = ""
port = 0
scheme = "http"

[discovery.gpustack]
url = ""
token_env = ""
model = ""

[discovery.kubernetes]
selector = ""
namespace = ""
port = ""
"""
WITHOUT_DEFAULT = {
    "replica.name",
    "replica.url",
}


def leaves(table: dict[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = f"{above}{name}"
        if isinstance(value, dict) and key not in KNOWN_KEYS:
            yield from leaves(value, f"{key}.")
        else:
            yield key, value


def fields_of(cls: type, above: str = "") -> Iterator[str]:
    for field in attrs.fields(cls):
        if field.type is not None and attrs.has(field.type):
            yield from fields_of(field.type, f"{above}{field.name}.")
        else:
            yield f"{above}{field.name}"


EXPECTED = dict(leaves(tomllib.loads(DOCUMENTED)))


def default_of(info: KeyInfo) -> object:
    return tomllib.loads(f"default = {info.default}")["default"]


def test_exactly_the_documented_keys_are_known() -> None:
    assert set(KNOWN_KEYS) == set(EXPECTED) | WITHOUT_DEFAULT


@pytest.mark.parametrize("key", sorted(EXPECTED))
def test_the_default_of_each_key_is_the_documented_one(key: str) -> None:
    info = KNOWN_KEYS[key]
    assert default_of(info) == EXPECTED[key]
    info.kind.parse(EXPECTED[key])  # and its own kind takes it


def test_every_built_key_of_a_section_has_the_default_that_the_log_has() -> None:
    fielded = [info for info in KNOWN_KEYS.values() if info.field]
    found = {info.key: info.kind.parse(default_of(info)) for info in fielded}
    assert found == {info.key: attrgetter(info.field)(InForce()) for info in fielded}


def test_every_field_of_the_sections_is_reached_by_exactly_one_key() -> None:
    reached = sorted(info.field for info in KNOWN_KEYS.values() if info.field)
    assert reached == sorted(fields_of(InForce))


def test_every_key_has_a_field_or_belongs_beside_the_sections() -> None:
    for info in KNOWN_KEYS.values():
        apart = info.key.startswith("replica.") or info.key == "server.api_keys"
        apart |= info.key.startswith(("discovery.", "scrape.generic."))
        homes = (bool(info.field), apart)
        assert sum(homes) == 1, info.key


def test_every_key_is_told_in_one_sentence() -> None:
    for info in KNOWN_KEYS.values():
        assert info.doc.endswith("."), info.key
        assert info.doc[0].isupper() or info.doc.split()[0] in info.kind.name, info.key
        assert "\n" not in info.doc, info.key


def test_every_key_outside_replica_has_a_variable_of_its_own() -> None:
    variables = [info.variable for info in KNOWN_KEYS.values() if info.variable]
    assert len(set(variables)) == len(variables)
    assert KNOWN_KEYS["scrape.interval"].variable == "TRIOROUTE_SCRAPE_INTERVAL"
    assert KNOWN_KEYS["policy.slack.session"].variable == "TRIOROUTE_POLICY_SLACK_SESSION"
    assert KNOWN_KEYS["replica.url"].variable == ""


@pytest.mark.parametrize(
    "written, meant",
    [
        ("scrape.intervall", "scrape.interval"),
        ("server.listn", "server.listen"),
        ("policy.slack.sesion", "policy.slack.session"),
        ("scrap", "scrape.timeout"),
        ("replicas", "replica.url"),
        ("policy.slak", "policy.slack.prefix"),
        ("interval", "scrape.interval"),
        ("server.cooldown", "eject.cooldown"),
        ("discovery.k8s-kubernetes", "discovery.kubernetes.port"),
    ],
)
def test_the_nearest_key_is_the_one_that_was_meant(written: str, meant: str) -> None:
    assert nearest(written, KNOWN_KEYS) == meant
    assert meant in KNOWN_KEYS, "never a section"


ODD = [
    *(None, True, False, 0, -1, 1.5, float("nan"), float("-inf"), 10**400, "", " ", "\x00", "é"),
    *("١", "1" * 5000, "a:b:c", "http://[", "//@", [], [[]], [None], {}, {"a": {}}, object()),
    *([{"url": 1}], ("x",) * 300, b"bytes", date(2020, 1, 1)),
]


@pytest.mark.parametrize("key", sorted(KNOWN_KEYS))
def test_no_value_however_odd_is_more_than_a_bad_value(key: str) -> None:
    info = KNOWN_KEYS[key]
    for value in (*ODD, *(info.kind.from_text(odd) for odd in ODD if isinstance(odd, str))):
        assert "\n" not in info.kind.show(value)
        assert len(info.kind.show(value)) <= SHOWN_CHARS
        with contextlib.suppress(BadValue):
            info.kind.parse(value)
