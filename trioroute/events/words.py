"""The closed vocabularies of the log: what an event may say, and nothing else.

A word never changes its meaning once a log may hold it; a new word is added, an old one is kept.
"""

from typing import Literal

ReplicaState = Literal["JOINING", "LIVE", "EJECTED", "PROBING", "DRAINING"]
"""RULES 2. DRAINING is laid over the others by an operator or by discovery."""

Reason = Literal["affinity:session", "affinity:prefix", "affinity:response", "load", "fallback"]
"""Why a replica was chosen (RULES 4); also the ``x-trioroute-reason`` header."""

Outcome = Literal[
    "ok",
    "client_error",  # a 4xx of the replica, passed on
    "upstream_error",  # a 5xx of the replica, passed on
    "upstream_cut",  # the response broke off after its first byte
    "upstream_empty",  # a 200 event stream without a single event
    "client_gone",
    "first_byte_timeout",
    "idle_timeout",
    "client_stall",
    "shutdown",
    "unknown",  # an orphan: the router died while it ran
]
"""How a request ended, as seen by the client."""

Blame = Literal["replica", "client", "router", "none"]
"""Whose fault an ending was. Only ``replica`` counts towards an eject (RULES 6.2)."""

Cause = Literal[
    "none",
    "refused",
    "dns",
    "tls",
    "fin",  # closed before it was complete
    "reset",
    "timeout",
    "protocol",  # not what HTTP or the metrics format allows
    "status",  # an HTTP status said so
    "error_event",  # an error inside a 200 (RULES 6.12)
    "abort",  # finish_reason "abort" that no client asked for (RULES 6.12)
    "cancelled",
    "shutdown",
]
"""What happened on the wire."""

ChangedBy = Literal[
    "start",  # the configuration the router started with
    "signal",  # SIGHUP
    "admin",  # a person or program at the admin port
    "discovery",
]
"""Who changed the configuration or the fleet."""

Source = Literal["config", "admin", "discovery"]
"""Whose replica it is: only its source removes it again."""

PinKind = Literal["session", "prefix"]

BindCause = Literal["new"]

SpillCause = Literal["queue", "running", "busy", "stalled", "full", "tried"]
"""Why a pin could not be used although its replica is LIVE (RULES 4, step 4)."""

DeadPin = Literal["ejected", "probing", "draining", "joining", "asleep", "gone"]
"""Why a pin's replica cannot hold a pin (RULES 5.8)."""

RebindCause = Literal[
    "spills",  # RULES 5.5
    "force",  # RULES 5.6
    "failed",  # RULES 5.9: the request that bound it moved on
    "ejected",
    "probing",
    "draining",
    "joining",
    "asleep",
    "gone",
]

UnbindCause = Literal[
    "ttl",  # RULES 5.3
    "spills",  # RULES 5.7
    "evicted",  # RULES 5.10
    "failed",
    "ejected",
    "probing",
    "draining",
    "joining",
    "asleep",
    "gone",
]

RefusalCode = Literal[
    "invalid_request",
    "invalid_api_key",
    "model_not_found",
    "unsupported_encoding",
    "rate_limited",
    "body_too_large",
    "no_healthy_instances",
    "overloaded",
    "log_stalled",
    "method_not_allowed",
    "not_found",
    "shutting_down",
]
"""Why the router itself did not dispatch; the ``code`` of its error body."""
