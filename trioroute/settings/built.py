"""The keys that are built, section by section, in the order of the documentation."""

from trioroute.settings.keys import KeyInfo, section
from trioroute.settings.kinds import (
    address,
    choice,
    command,
    duration,
    file,
    names,
    number,
    size,
    table,
    text,
    texts,
    thousandths,
    truth,
    variable,
)

MILLION = 1_000_000
TEBIBYTE = 1 << 40
CENTURY_MS = 100 * 365 * 86_400_000
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}"  # RFC 9110, 5.6.2
_HEADER = text(empty=False, pattern=_TOKEN, says="header name")
_HEADER_OR_NONE = text(empty=True, pattern=_TOKEN, says="header name")
_ORIGIN = text(
    empty=False,
    pattern=r"\*|https?://[A-Za-z0-9.:\[\]-]{1,255}",
    says="origin such as https://app.example.com, or *",
)
_FIELD = text(empty=False, pattern=r"[^.\s]{1,128}(\.[^.\s]{1,128}){0,7}", says="field path")
_MODEL = text(empty=False, says="model name")
_NAME = text(
    empty=False,
    pattern=r"[a-z0-9][a-z0-9-]{0,31}",
    says="name of lower-case letters, digits and dashes, at most 32",
)
_SESSION_HEADERS = (
    '["x-session-id", "x-kilo-session", "x-claude-code-session-id", "session-id", "session_id",'
    ' "thread-id", "x-session-affinity", "x-litellm-session-id"]'
)
_SESSION_FIELDS = (
    '["conversation_id", "thread_id", "session_id", "metadata.session_id", "prompt_cache_key"]'
)
_GRACE = "From the signal on, how long running requests may go on before they are ended."
_CORS = "Origins that browsers may call from, or *; empty: CORS is the engines' business."
_ACCESS = "Where one JSON line a request goes: off, stderr or a file."
_ALIASES = "Other names for models, not for aliases; the replica is asked by the model's own name."
_SETTLE = "After SIGTERM, how long new requests are still taken while readiness already fails."
_HEARTBEAT = "Time between SSE comments to a streaming client while prefill lasts; 0: none."
_ADMIN_TLS = "Whether the admin port speaks TLS too, with the data port's certificate."
_TLS_CERT = "PEM file of the data port's certificate chain, read again by a reload."
_TLS_KEY = "PEM file of the private key; setting both or none anew needs a restart."
_REVEAL = "Whether responses carry the x-trioroute-replica and x-trioroute-reason headers."
_AUTH = "Whether the client's credentials go on to the replica; not where API keys are set here."
_TOKEN_ENV = "Variable with the admin port's token; needed when admin is not on loopback."
_KEYS_FILE = "File of API keys, one name:sha256[:project] a line; trioroute key new makes one."
_KEYS = (
    "API keys, or limits of those in the file: name, sha256, project, requests_per_minute,"
    " max_in_flight, weight of each; types, defaults and rotation are in HTTP.md."
)
_GATE_WAIT = "How long a first byte waits for a slow log before on_failure applies."
_RETAIN_AGE = "A closed file goes when its last event is older; 0: never."
_RETAIN_BYTES = "The oldest closed files go while the log is larger; 0: whatever its size."
_ARCHIVE = "Command run for each closed file, {segment} is its path; not before it a file goes."
_LITERAL = "counted carries a scrape forward by what was sent since; literal does not (RULES 3)."
_RESET = "Unbroken time LIVE after which the count of ejects in a row is 0 (RULES 6.8)."
_STREAK = "An eject this soon after the return counts as one more in a row (RULES 6.7)."
_STALL = "A replica that runs requests but makes no token for this long is stalled (RULES 6.10)."
_STREAM = "What open streams of a replica that refuses connections still get (RULES 6.13)."

SECTIONS: tuple[KeyInfo, ...] = (
    *section(
        "server",
        ("name", _NAME, '"r1"', "The router's name; its decisions are NAME/1, NAME/2, ..."),
        ("listen", address(), '"127.0.0.1:8080"', "Where clients connect."),
        ("admin", address(), '"127.0.0.1:9090"', "Dashboard, metrics and admin API."),
        ("admin_token_env", variable(), '""', _TOKEN_ENV),
        ("tls_cert", file(), '""', _TLS_CERT),
        ("tls_key", file(), '""', _TLS_KEY),
        ("admin_tls", truth(), "false", _ADMIN_TLS),
        ("max_body_bytes", size(1, TEBIBYTE), '"64MiB"', "Larger request bodies are refused."),
        ("api_keys_file", file(), '""', _KEYS_FILE),
        ("forward_client_auth", truth(), "true", _AUTH),
        ("reveal", truth(), "true", _REVEAL),
        ("cors_origins", texts(_ORIGIN), "[]", _CORS),
        ("access_log", text(empty=False, says="off, stderr or a file"), '"off"', _ACCESS),
        ("graceful_timeout", duration(0), '"120s"', _GRACE),
        ("settle", duration(0), '"1s"', _SETTLE),
        ("heartbeat", duration(0), "0", _HEARTBEAT),
    ),
    *section(
        "timeouts",
        ("connect", duration(0), '"3s"', "Limit of a connection attempt to a replica; 0: none."),
        ("first_byte", duration(0), '"600s"', "Limit from dispatch to the first byte; 0: none."),
        ("idle", duration(0), '"120s"', "Limit between two bytes of a response; 0: none."),
        ("total", duration(0), "0", "Limit of a whole request; 0: none."),
        ("client_stall", duration(0), '"60s"', "How long a client may take nothing; 0: no limit."),
    ),
    *section(
        "retries",
        ("max", number(0, 16), "2", "How many further replicas a request may try."),
        ("budget", thousandths(0, 1000), "0.2", "The share of all requests that may be retries."),
    ),
    *section(
        "log",
        ("path", text(empty=False, says="directory"), '"trioroute-log"', "The log's directory."),
        ("sync", choice("full", "normal"), '"full"', "full survives power loss, normal a crash."),
        (
            "gate",
            choice("first_byte", "dispatch", "off"),
            '"first_byte"',
            "What waits until the decision is in the log: the first response byte, the request.",
        ),
        ("gate_wait", duration(0), '"2s"', _GATE_WAIT),
        (
            "on_failure",
            choice("refuse", "serve"),
            '"refuse"',
            "What happens to requests while the log cannot be written.",
        ),
        ("buffer_entries", number(1, 100 * MILLION), "100000", "Most entries not yet written."),
        ("buffer_bytes", size(1, TEBIBYTE), '"64MiB"', "Most bytes of entries not yet written."),
        (
            "segment_bytes",
            size(0, TEBIBYTE),
            '"256MiB"',
            "A file of the log closes here; 0: never.",
        ),
        ("segment_age", duration(0), '"24h"', "A file of the log closes at this age; 0: never."),
        ("retain_age", duration(0, CENTURY_MS), '"14d"', _RETAIN_AGE),
        ("retain_bytes", size(0, TEBIBYTE), '"20GiB"', _RETAIN_BYTES),
        ("archive", command("{segment}"), '""', _ARCHIVE),
    ),
    *section(
        "policy",
        (
            "name",
            choice("soft-sticky", "least-work"),
            '"soft-sticky"',
            "The rules by which a replica is chosen (RULES 4, 9).",
        ),
        ("load", choice("counted", "literal"), '"counted"', _LITERAL),
        ("slack.session", number(0, MILLION), "1", "More running than the least a session bears."),
        ("slack.prefix", number(0, MILLION), "0", "More running than the least a prefix bears."),
    ),
    *section(
        "wlc",
        ("unit_tokens", number(1, MILLION), "1000", "Estimated tokens that weigh 1 (RULES 3)."),
        (
            "bytes_per_token",
            thousandths(100, 100_000),
            "4",
            "Bytes of prompt a token, until a model's replies calibrate it (RULES 3).",
        ),
    ),
    *section(
        "pins",
        (
            "session_headers",
            texts(_HEADER, lower=True),
            _SESSION_HEADERS,
            "Headers that name a session, the first present one counts (RULES 5.1).",
        ),
        (
            "session_fields",
            texts(_FIELD),
            _SESSION_FIELDS,
            "Body fields that name a session where no header does (RULES 5.1).",
        ),
        ("project_header", _HEADER_OR_NONE, '"x-project-id"', "Header that names the project."),
        ("session_ttl", duration(1), '"60m"', "An unused session pin dies after this (RULES 5.3)."),
        ("prefix_ttl", duration(1), '"5m"', "A prefix pin dies this long after it was bound."),
        (
            "prefix_chars",
            number(1, MILLION),
            "4096",
            "Length of system prompt in a prefix key.",
        ),
        ("spills_to_rebind", number(1, MILLION), "3", "Spills in a row that rebind a session."),
        ("force_rebind", number(1, MILLION), "3", "Excess running that rebinds a session at once."),
        (
            "prefix_spills_to_drop",
            number(1, MILLION),
            "2",
            "Spills in a row that delete a prefix pin (RULES 5.7).",
        ),
        ("max", number(1, 100 * MILLION), "100000", "Most pins of each sort; the oldest go first."),
    ),
    *section(
        "scrape",
        ("interval", duration(10), '"3s"', "Time between two scrapes of a replica (RULES 6.1)."),
        ("timeout", duration(1), '"2s"', "A scrape that takes longer has failed."),
        ("stale_after", number(1, 1000), "3", "Intervals after which a reading is not believed."),
    ),
    *section(
        "eject",
        (
            "scrape_failures",
            number(1, 1000),
            "2",
            "Failed scrapes in a row that eject.",
        ),
        ("request_failures", number(1, 1000), "3", "Failed requests in a row that eject."),
        (
            "cooldown",
            duration(1),
            '"30s"',
            "Time out of traffic; doubles each time in a row.",
        ),
        ("cooldown_max", duration(1), '"300s"', "The doubling stops here (RULES 6.7)."),
        ("streak_window", duration(0), '"10m"', _STREAK),
        ("streak_reset", duration(0), '"600s"', _RESET),
        ("stall_after", duration(1), '"60s"', _STALL),
        ("stream_grace", duration(0), '"10s"', _STREAM),
        ("busy_default", duration(0), '"1s"', "How long a 429 or 503 without Retry-After lasts."),
    ),
    *section(
        "probing",
        ("good_scrapes", number(1, 1000), "2", "Good scrapes in a row that end an ejection."),
        ("window", duration(0), '"15s"', "Time without a failure until LIVE again (RULES 6.5)."),
        ("max_in_flight", number(1, MILLION), "4", "Most requests at once on a PROBING replica."),
    ),
    *section(
        "admission",
        ("max_wait", duration(0), '"5s"', "How long a request waits when all replicas are full."),
        ("max_waiting", number(0, MILLION), "512", "Most requests that wait at once."),
        ("max_in_flight", number(0, MILLION), "0", "Most requests at once a replica; 0: no limit."),
    ),
    *section("models", ("aliases", names(_MODEL), "{}", _ALIASES)),
)

_METRIC = text(empty=True, pattern=r"[a-zA-Z_:][a-zA-Z0-9_:]*", says="metric name")
_PATH = text(empty=False, pattern=r"/[!-~]*", says="path that begins with /")
GENERIC = tuple(
    KeyInfo(f"scrape.generic.{name}", kind, default, doc)
    for name, kind, default, doc in (
        ("path", _PATH, '"/metrics"', "Where replicas of the engine generic tell their load."),
        (
            "running",
            _METRIC,
            '""',
            "Their series of running requests, as Prometheus text names it.",
        ),
        ("waiting", _METRIC, '""', "Their series of waiting requests."),
        ("kv", _METRIC, '""', "Their series of KV use, a share from 0 to 1; empty: not told."),
        ("tokens", _METRIC, '""', "Their counter of generated tokens; empty: not told."),
    )
)
BESIDE = (KeyInfo("server.api_keys", table(), "[]", _KEYS), *GENERIC)
"""Built keys that are kept beside the sections: the log holds none of what they say."""

ENGINES = choice("vllm", "sglang", "llamacpp", "tgi", "lmdeploy", "trtllm", "generic", "none")
REPLICA_NAME = text(
    empty=False,
    pattern=r"[A-Za-z0-9\[][A-Za-z0-9._:\[\]-]{0,127}",
    says="name of letters, digits and ._:- that begins with a letter or digit, at most 128",
)
MODELS = texts(_MODEL)
API_KEY_ENV = variable()
