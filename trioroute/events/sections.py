"""The settings in force, as the log holds them: one frozen class a section of ``trioroute.toml``.

A field's key in the file is its name without the unit: ``interval_ms`` is ``interval``,
``budget_m`` (thousandths) is ``budget``. Sizes keep their name, they are bytes on both sides.
No field holds a secret, so the whole tree goes into ``Configured`` and a log replays without any
file beside it. Every default is the number of RULES.md.
"""

from typing import Literal

import attrs

SESSION_HEADERS = (
    "x-session-id",
    "x-kilo-session",
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "thread-id",
    "x-session-affinity",
    "x-litellm-session-id",
)
SESSION_FIELDS = (
    "conversation_id",
    "thread_id",
    "session_id",
    "metadata.session_id",
    "prompt_cache_key",
)


@attrs.frozen(kw_only=True)
class Slack:
    """How many more running requests than the least a pin's replica may have (RULES 4, step 4)."""

    session: int = 1
    prefix: int = 0


@attrs.frozen(kw_only=True)
class Policy:
    name: Literal["soft-sticky", "least-work"] = "soft-sticky"
    load: Literal["counted", "literal"] = "counted"
    slack: Slack = attrs.field(factory=Slack)


@attrs.frozen(kw_only=True)
class Wlc:
    """Weights (RULES 3). ``bytes_per_token`` is where calibration per model starts."""

    unit_tokens: int = 1000
    bytes_per_token_m: int = 4000


@attrs.frozen(kw_only=True)
class Pins:
    """Keys and lives of pins (RULES 5)."""

    session_headers: tuple[str, ...] = SESSION_HEADERS
    session_fields: tuple[str, ...] = SESSION_FIELDS
    project_header: str = "x-project-id"
    session_ttl_ms: int = 3_600_000
    prefix_ttl_ms: int = 300_000
    prefix_chars: int = 4096
    spills_to_rebind: int = 3
    force_rebind: int = 3
    prefix_spills_to_drop: int = 2
    max: int = 100_000


@attrs.frozen(kw_only=True)
class Scrape:
    """Rounds of scraping (RULES 6.1); ``stale_after`` counts intervals (RULES 3)."""

    interval_ms: int = 3000
    timeout_ms: int = 2000
    stale_after: int = 3


@attrs.frozen(kw_only=True)
class Eject:
    """When a replica leaves traffic and for how long (RULES 6.2 to 6.13)."""

    scrape_failures: int = 2
    request_failures: int = 3
    cooldown_ms: int = 30_000
    cooldown_max_ms: int = 300_000
    streak_window_ms: int = 600_000
    streak_reset_ms: int = 600_000
    stall_after_ms: int = 60_000
    stream_grace_ms: int = 10_000
    busy_default_ms: int = 1000


@attrs.frozen(kw_only=True)
class Probing:
    """The way back (RULES 6.4 to 6.6, 4.7)."""

    good_scrapes: int = 2
    window_ms: int = 15_000
    max_in_flight: int = 4


@attrs.frozen(kw_only=True)
class Admission:
    """The bounded line of those who found only full replicas (RULES 4.7); 0 = no limit."""

    max_wait_ms: int = 5000
    max_waiting: int = 512
    max_in_flight: int = 0


@attrs.frozen(kw_only=True)
class Timeouts:
    """Limits of one request; 0 switches a limit off."""

    connect_ms: int = 3000
    first_byte_ms: int = 600_000
    idle_ms: int = 120_000
    total_ms: int = 0
    client_stall_ms: int = 60_000


@attrs.frozen(kw_only=True)
class Retries:
    """``max`` further attempts a request, at most ``budget`` of all requests."""

    max: int = 2
    budget_m: int = 200


@attrs.frozen(kw_only=True)
class Log:
    """The event log. A limit of 0 is off."""

    path: str = "trioroute-log"
    sync: Literal["full", "normal"] = "full"
    gate: Literal["first_byte", "dispatch", "off"] = "first_byte"
    gate_wait_ms: int = 2000
    on_failure: Literal["refuse", "serve"] = "refuse"
    buffer_entries: int = 100_000
    buffer_bytes: int = 67_108_864
    segment_bytes: int = 268_435_456
    segment_age_ms: int = 86_400_000
    retain_age_ms: int = 1_209_600_000
    retain_bytes: int = 21_474_836_480
    archive: str = ""


@attrs.frozen(kw_only=True)
class Server:
    """The two ports and what the data port allows."""

    name: str = "r1"
    listen: str = "127.0.0.1:8080"
    admin: str = "127.0.0.1:9090"
    admin_token_env: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    admin_tls: bool = False
    max_body_bytes: int = 67_108_864
    api_keys_file: str = ""
    forward_client_auth: bool = True
    reveal: bool = True
    cors_origins: tuple[str, ...] = ()
    access_log: str = "off"
    graceful_timeout_ms: int = 120_000
    settle_ms: int = 1000
    heartbeat_ms: int = 0


@attrs.frozen(kw_only=True)
class Models:
    """``aliases``: the name a client may ask for, and the model that is meant."""

    aliases: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class InForce:
    """Every setting that is in force, without secrets: the body of ``Configured``."""

    server: Server = attrs.field(factory=Server)
    timeouts: Timeouts = attrs.field(factory=Timeouts)
    retries: Retries = attrs.field(factory=Retries)
    log: Log = attrs.field(factory=Log)
    policy: Policy = attrs.field(factory=Policy)
    wlc: Wlc = attrs.field(factory=Wlc)
    pins: Pins = attrs.field(factory=Pins)
    scrape: Scrape = attrs.field(factory=Scrape)
    eject: Eject = attrs.field(factory=Eject)
    probing: Probing = attrs.field(factory=Probing)
    admission: Admission = attrs.field(factory=Admission)
    models: Models = attrs.field(factory=Models)
