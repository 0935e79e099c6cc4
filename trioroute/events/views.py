"""SQL views over the log's table for people with sqlite3, sqlite-utils or Datasette.

``VIEWS`` maps a name to a SELECT over ``events(seq, stream, version, kind, schema, at_ms, seen,
body, chain)`` of one segment: an end that fell into the next segment shows as NULL. ``at`` is UTC.
Written with ``json_extract`` and without ``->>``, so SQLite 3.35 is enough.
"""

_AT = "strftime('%Y-%m-%dT%H:%M:%fZ', {at} / 1000.0, 'unixepoch')"

# The ends are gathered once and their number is CAST, so that SQLite indexes them by it for the
# join; without, it compared every dispatch with every end (20,000: minutes, now a second).
_DECISIONS = f"""
WITH ends AS MATERIALIZED (
    SELECT stream, CAST(json_extract(body, '$.dispatch') AS INTEGER) AS dispatch, at_ms,
           CASE kind WHEN 'Failed' THEN 'failed' ELSE json_extract(body, '$.outcome')
           END AS outcome,
           json_extract(body, '$.cause') AS cause,
           json_extract(body, '$.blame') AS blame,
           json_extract(body, '$.status') AS status,
           json_extract(body, '$.ttfb_ms') AS ttfb_ms,
           json_extract(body, '$.duration_ms') AS duration_ms,
           json_extract(body, '$.prompt_tokens') AS prompt_tokens,
           json_extract(body, '$.completion_tokens') AS completion_tokens
    FROM events WHERE kind IN ('Released', 'Failed')
    UNION ALL
    SELECT stream, CAST(orphan.value AS INTEGER), at_ms, 'unknown',
           NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM events, json_each(body, '$.dispatches') AS orphan WHERE kind = 'Orphaned'
)
SELECT substr(d.stream, 8) || '/' || d.version AS decision,
       d.seq,
       {_AT.format(at="d.at_ms")} AS at,
       json_extract(d.body, '$.request_id') AS request_id,
       json_extract(d.body, '$.model') AS model,
       json_extract(d.body, '$.attempt') AS attempt,
       json_extract(d.body, '$.replica') AS replica,
       json_extract(d.body, '$.reason') AS reason,
       json_extract(d.body, '$.weight_m') AS weight_m,
       json_extract(d.body, '$.session') AS session,
       json_extract(d.body, '$.prefix') AS prefix,
       json_extract(d.body, '$.home') AS home,
       coalesce(json_extract(d.body, '$.waited_ms'), 0) AS waited_ms,
       ends.outcome, ends.cause, ends.blame, ends.status, ends.ttfb_ms, ends.duration_ms,
       ends.prompt_tokens, ends.completion_tokens,
       {_AT.format(at="ends.at_ms")} AS ended_at
FROM events AS d LEFT JOIN ends ON ends.stream = d.stream AND ends.dispatch = d.version
WHERE d.kind = 'Dispatched'
"""

_REPLICA_HISTORY = f"""
SELECT seq, {_AT.format(at="at_ms")} AS at,
       json_extract(body, '$.replica') AS replica,
       CASE WHEN kind = 'Draining' AND NOT json_extract(body, '$.on') THEN 'Undrained' ELSE kind
       END AS what,
       json_extract(body, '$.cause') AS cause,
       json_extract(body, '$.n') AS n,
       CASE WHEN kind = 'Ejected' THEN {_AT.format(at="json_extract(body, '$.until_ms')")}
       END AS until,
       json_extract(body, '$.url') AS url,
       json_extract(body, '$.models') AS models
FROM events
WHERE kind IN
    ('ReplicaJoined', 'ReplicaLeft', 'Draining', 'Live', 'Probing', 'Ejected', 'ScrapeFailed')
"""

_PIN_HISTORY = f"""
SELECT seq, {_AT.format(at="at_ms")} AS at,
       kind AS what,
       json_extract(body, '$.kind') AS pin,
       json_extract(body, '$.key') AS key,
       json_extract(body, '$.replica') AS replica,
       json_extract(body, '$.previous') AS previous,
       json_extract(body, '$.to') AS spilled_to,
       json_extract(body, '$.cause') AS cause,
       json_extract(body, '$.count') AS count,
       substr(stream, 8) || '/' || json_extract(body, '$.dispatch') AS decision
FROM events WHERE kind IN ('Bound', 'Spilled', 'Rebound', 'Unbound')
"""

_INCIDENTS = f"""
SELECT seq, {_AT.format(at="at_ms")} AS at,
       substr(stream, 8) AS router,
       kind AS what,
       json_extract(body, '$.replica') AS replica,
       CASE kind
           WHEN 'Started' THEN 'release ' || json_extract(body, '$.release')
           WHEN 'Ejected' THEN
               json_extract(body, '$.cause') || ', ' || json_extract(body, '$.n') || ' in a row'
           WHEN 'StoodStill' THEN printf('%.1f s', json_extract(body, '$.for_ms') / 1000.0)
           ELSE json_extract(body, '$.cause')
       END AS detail,
       CASE kind
           WHEN 'Orphaned' THEN json_array_length(body, '$.dispatches')
           WHEN 'Gap' THEN json_extract(body, '$.lost')
           ELSE 1
       END AS count
FROM events
WHERE kind IN
    ('Ejected', 'Probing', 'Live', 'Orphaned', 'Gap', 'Started', 'Stopped', 'StoodStill')
UNION ALL
SELECT min(seq), {_AT.format(at="min(at_ms)")}, substr(stream, 8), 'Refused', NULL,
       json_extract(body, '$.code'), count(*)
FROM events WHERE kind = 'Refused'
GROUP BY stream, at_ms / 60000, json_extract(body, '$.code')
ORDER BY 1
"""

VIEWS: dict[str, str] = {
    "decisions": _DECISIONS.strip(),
    "replica_history": _REPLICA_HISTORY.strip(),
    "pin_history": _PIN_HISTORY.strip(),
    "incidents": _INCIDENTS.strip(),
}
"""``decisions``: one row a dispatch with its end; ``incidents``: refusals are counted a minute."""
