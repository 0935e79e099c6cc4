"""Alert rules for Prometheus (RULES 8): what an operator should be woken for, and what to do then.

``for`` and ranges suit a scrape interval of 5 to 30 seconds. Expressions keep every label but those
of one replica (``without``), so several routers behind one Prometheus alert one by one.
"""

import json

import attrs

from trioroute.events.sections import Eject

GROUP = "trioroute"


@attrs.frozen
class Alert:
    """One rule; ``hold`` is how long the expression must stay true, in Prometheus' words."""

    name: str
    expr: str
    hold: str
    severity: str
    summary: str
    description: str


IMBALANCED = Alert(
    "TriorouteImbalanced",
    # It counts weights (RULES 3), so it is compared in typical requests: with prompts of 8K tokens
    # one request more on one of two replicas reads 8, and is no trouble. Pool by pool: a busy pool
    # beside an idle one is none either.
    """\
avg_over_time(trioroute_pool_imbalance[1m])
  > 3 * clamp_min(
    avg_over_time(trioroute_pool_wlc_in_flight[5m])
      / avg_over_time(trioroute_pool_in_flight[5m]),
    1
  )""",
    "5m",
    "warning",
    "Load of {{ $labels.model }} is uneven: the fullest replica is {{ $value | humanize }} ahead of"
    " the emptiest",
    "More than three typical requests lie between the fullest and the emptiest LIVE replica of the"
    " pool."
    " trioroute replay LOG --last 20 tells why requests went where they did: mostly by pins, or"
    " because the others are not LIVE.",
)
ONE_TAKES_ALL = Alert(
    "TriorouteOneReplicaTakesAll",
    # A handful of requests on one replica is one agent at work, not a cemented pool.
    """\
trioroute_pool_largest_share > 0.99
  and trioroute_pool_replicas > 1
  and sum without (outcome) (increase(trioroute_requests_total[5m])) > 20""",
    "5m",
    "warning",
    "One replica of several takes all traffic of {{ $labels.model }}",
    "All dispatches of five minutes in this pool went to one replica. See the states of the others"
    " on the dashboard, and trioroute replay LOG --last 20 for the reasons.",
)
PROBING_BROKEN = Alert(
    "TriorouteProbingBroken",
    """\
sum without (replica, state) (trioroute_replica_state{state="EJECTED"}) > 0
  and time() - max without (replica) (trioroute_last_good_scrape_timestamp_seconds) > 60""",
    "0m",
    "critical",
    "No scrape has succeeded for a minute and replicas are ejected",
    "Only scrapes bring a replica back (RULES 6.3), and none works now: the network between router"
    " and replicas, the replicas' /metrics, or the scraper itself is broken.",
)
LOG_NOT_WRITTEN = Alert(
    "TriorouteLogNotWritten",
    # Scrapes alone append every few seconds: a healthy log never stands still with work to do.
    """\
trioroute_log_position > trioroute_log_durable_position
  and delta(trioroute_log_durable_position[1m]) == 0""",
    "0m",
    "critical",
    "The event log cannot be written",
    "Nothing was committed for a minute while events wait. New requests get 503 log_stalled, or are"
    " served unlogged, as log.on_failure says. See the router's own log for the error: a full disk,"
    " mostly. Writing goes on by itself.",
)
UNLOGGED = Alert(
    "TriorouteResponsesUnlogged",
    "increase(trioroute_responses_unlogged_total[5m]) > 0",
    "0m",
    "warning",
    "Responses left before their decision was in the log",
    "log.on_failure is serve and the log could not be written in time. The hole is named by a Gap"
    " event; these responses cannot be explained later.",
)
STALLED = Alert(
    "TriorouteReplicaStalled",
    "trioroute_replica_stalled == 1",
    "0m",
    "critical",
    "{{ $labels.replica }} runs requests but generates no tokens",
    "Its token counter stands still while requests run (RULES 6.10). A frozen engine still answers"
    " /health: restart it.",
)
REPLICA_OUT = Alert(
    "TriorouteReplicaEjected",
    'trioroute_replica_state{state="EJECTED"} == 1',
    "5m",
    "warning",
    "{{ $labels.replica }} has been out of traffic for five minutes",
    "trioroute replay LOG --replica {{ $labels.replica }} shows when it went and on what evidence.",
)
NOBODY = Alert(
    "TriorouteNobodyRoutable",
    # A model that no replica lists any more (its pods are gone from discovery) is trouble while
    # somebody asks for it, and else retired. The last part is for a fleet of unknown models.
    """\
(
  trioroute_pool_routable_replicas == 0
  and (
    trioroute_pool_replicas > 0
    or sum without (outcome) (increase(trioroute_requests_total[10m])) > 0
  )
)
or (
  sum without (replica, state) (trioroute_replica_state{state=~"LIVE|PROBING"}) == 0
  unless ignoring (model) trioroute_pool_replicas > 0
)""",
    "30s",
    "critical",
    "No replica is routable{{ with $labels.model }} for {{ . }}{{ end }}",
    "Requests get a random ejected replica or 503 no_healthy_instances (RULES 4, step 5). /readyz"
    " stays 200 while another model is served: it names this one under unserved.",
)

LOG_STALLED = Alert(
    "TriorouteLogStalled",
    'sum without (code, key) (increase(trioroute_refused_total{code="log_stalled"}[5m])) > 0',
    "0m",
    "critical",
    "Requests are refused because the event log cannot be written in time",
    "Clients get 503 log_stalled: a commit takes longer than log.gate_wait, or none succeeds. See"
    " trioroute_log_commit_seconds and the router's own log: a slow or full disk, mostly.",
)
# What a client got wrong (its key, its body, its model) wakes nobody.
_OURS = 'trioroute_refused_total{code=~"rate_limited|overloaded|no_healthy_instances|upstream_.*"}'
REFUSING = Alert(
    "TriorouteRefusing",
    f"""\
sum without (code, key) (increase({_OURS}[5m]))
  > 0.1 * sum without (replica, reason) (increase(trioroute_dispatches_total[5m]))
  and sum without (code, key) (increase({_OURS}[5m])) > 20""",
    "5m",
    "warning",
    "More than one request is refused for ten that are dispatched",
    "trioroute_refused_total tells by which code, and for rate_limited and overloaded of which key:"
    " a limit of server.api_keys, a full line (admission), or replicas that are out.",
)
DOWN = Alert(
    "TriorouteDown",
    # up has the job's name in Prometheus; where that is another, the missing series still tell.
    """\
up{job=~".*trioroute.*"} == 0
  or (absent(trioroute_log_position) unless on () up{job=~".*trioroute.*"})""",
    "1m",
    "critical",
    "A router does not answer its scrapes, or there is none",
    "The process is gone, its admin port cannot be reached, or it wants a token that Prometheus"
    " does not send (authorization in the scrape job). Ask /healthz there.",
)


def flapping(eject: Eject) -> Alert:
    """A replica whose cooldown reached its ceiling: above every shorter step (RULES 6.7)."""
    below_ms, step_ms = 0, eject.cooldown_ms
    while step_ms < eject.cooldown_max_ms:
        below_ms, step_ms = step_ms, 2 * step_ms
    return Alert(
        "TriorouteReplicaFlapping",
        f"max_over_time(trioroute_replica_cooldown_seconds[10m]) > {below_ms / 1000:g}",
        "0m",
        "warning",
        "{{ $labels.replica }} flaps: its cooldown is at the ceiling",
        "It was ejected again and again soon after each return. It gets no pins meanwhile, but each"
        " return costs requests: take it out with a drain until it is mended.",
    )


def alerts(eject: Eject) -> tuple[Alert, ...]:
    """Every rule, the most urgent first. ``eject`` sets where the cooldown's ceiling is."""
    return (
        DOWN,
        NOBODY,
        LOG_NOT_WRITTEN,
        LOG_STALLED,
        PROBING_BROKEN,
        STALLED,
        UNLOGGED,
        REFUSING,
        flapping(eject),
        REPLICA_OUT,
        ONE_TAKES_ALL,
        IMBALANCED,
    )


def rules_file(eject: Eject) -> str:
    """A Prometheus rules file. Strings are written as JSON, which YAML takes as they are."""
    lines = ["groups:", f"  - name: {GROUP}", "    rules:"]
    for alert in alerts(eject):
        lines += [f"      - alert: {alert.name}", "        expr: |"]
        lines += [f"          {line}" for line in alert.expr.splitlines()]
        if alert.hold != "0m":
            lines.append(f"        for: {alert.hold}")
        lines += [
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
        ]
        lines.append(f"          summary: {json.dumps(alert.summary)}")
        lines.append(f"          description: {json.dumps(alert.description)}")
    return "\n".join(lines) + "\n"
