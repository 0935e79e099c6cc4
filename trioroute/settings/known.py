"""``KNOWN_KEYS``: the whole configuration file as one table, for loading, documents and tests."""

from collections.abc import Mapping

from trioroute.settings import discovery
from trioroute.settings.addresses import parse_replica_url, url_shown
from trioroute.settings.built import (
    API_KEY_ENV,
    BESIDE,
    ENGINES,
    MODELS,
    REPLICA_NAME,
    SECTIONS,
)
from trioroute.settings.keys import KeyInfo, table_of
from trioroute.settings.kinds import Kind

URL = Kind("URL", parse_replica_url, show=url_shown)
REPLICA: tuple[KeyInfo, ...] = (
    KeyInfo("replica.name", REPLICA_NAME, "host:port", "The replica's name, used everywhere."),
    KeyInfo("replica.url", URL, "required", "Where its API is, without /v1."),
    KeyInfo("replica.models", MODELS, "[]", "What it serves; empty: asked from its /v1/models."),
    KeyInfo(
        "replica.engine",
        ENGINES,
        '"vllm"',
        "Which engine it is, for metrics and health: ENGINES.md.",
    ),
    KeyInfo("replica.api_key_env", API_KEY_ENV, '""', "The variable that holds its API key."),
)

_SECTION_ORDER = tuple(dict.fromkeys(row.key.split(".")[0] for row in SECTIONS))
_FILE_KEYS = (*SECTIONS, *BESIDE)

KNOWN_KEYS: Mapping[str, KeyInfo] = table_of(
    (
        *sorted(_FILE_KEYS, key=lambda row: _SECTION_ORDER.index(row.key.split(".")[0])),
        *REPLICA,
        *discovery.KEYS,
    )
)
"""Every documented key, in the order of the documentation."""

BY_VARIABLE: Mapping[str, KeyInfo] = {
    info.variable: info for info in KNOWN_KEYS.values() if info.variable
}
