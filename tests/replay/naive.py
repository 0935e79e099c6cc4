"""The rules once more, from raw rows alone: slow, without a state, and without trioroute's code.

For each question about a moment the rows before it are searched again. It knows ``soft-sticky``
with counted load, and no responses. What it says is compared with what replay explains.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import attrs
import orjson

from eventlog.record import Entry

Body = dict[str, Any]


@attrs.frozen
class Row:
    number: int
    at_ms: int
    kind: str
    body: Body


@attrs.frozen
class Seen:
    """A replica at a moment, with everything that RULES 3, 4 and 6 ask."""

    name: str
    state: str
    running: int | None
    waiting: int | None
    scrape_age_ms: int | None
    in_flight: int
    wlc_m: int
    running_m: int
    effective_running_m: int
    effective_waiting_m: int
    cooldown_ms: int
    eject_count: int
    flags: frozenset[str]


@attrs.frozen
class Verdict:
    replica: str
    reason: str
    seen: tuple[Seen, ...]
    pool: tuple[str, ...]
    no_wait: tuple[str, ...]
    least: str | None
    min_running_m: int
    pin: tuple[str, str, str, int, bool] | None


class Naive:
    """A log's rows, by kind. ``ends`` tells for each dispatch the row that ended it."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.rows = [
            Row(number, one.at_ms, one.kind, orjson.loads(one.body))
            for number, one in enumerate(entries, 1)
        ]
        self.open: tuple[int, list[Row]] = (0, [])
        self.kinds: dict[str, list[Row]] = {}
        self.ends: dict[int, Row] = {}
        for row in self.rows:
            self.kinds.setdefault(row.kind, []).append(row)
            if row.kind in ("Released", "Failed"):
                self.ends[row.body["dispatch"]] = row
            for orphan in row.body.get("dispatches", ()) if row.kind == "Orphaned" else ():
                self.ends[orphan] = row

    def before(self, number: int, *kinds: str) -> list[Row]:
        found: list[Row] = []
        for kind in kinds:
            rows = self.kinds.get(kind, [])
            found += rows[: bisect_left(rows, number, key=lambda row: row.number)]
        return sorted(found, key=lambda row: row.number) if len(kinds) > 1 else found

    def settings(self, number: int) -> Body:
        configured: Body = self.before(number, "Configured")[-1].body["settings"]
        return configured

    def joined(self, number: int) -> list[str]:
        names = [row.body["replica"] for row in self.before(number, "ReplicaJoined")]
        return list(dict.fromkeys(names))

    # One replica at a moment

    def open_flights(self, number: int) -> list[Row]:
        """Dispatches that have no end yet; the last answer is kept, for it is asked five times."""
        if self.open[0] != number:
            self.open = (number, self._open_flights(number))
        return self.open[1]

    def _open_flights(self, number: int) -> list[Row]:
        return [
            row
            for row in self.before(number, "Dispatched")
            if row.number not in self.ends or self.ends[row.number].number > number
        ]

    def health(self, name: str, number: int) -> list[Row]:
        rows = self.before(number, "Live", "Probing", "Ejected")
        return [row for row in rows if row.body["replica"] == name]

    def state(self, name: str, number: int) -> str:
        drains = [r for r in self.before(number, "Draining") if r.body["replica"] == name]
        if drains and drains[-1].body["on"]:
            return "DRAINING"
        health = self.health(name, number)
        return health[-1].kind.upper() if health else "JOINING"

    def readings(self, name: str, number: int) -> list[tuple[Row, Body, bool]]:
        """Every good scrape: its row, what it said, and whether that was the same as before."""
        found: list[tuple[Row, Body, bool]] = []
        for row in self.before(number, "Scraped"):
            if name in row.body["readings"]:
                found.append((row, row.body["readings"][name], False))
            elif name in row.body["same"] and found:
                found.append((row, found[-1][1], True))
        return found

    def stalled(self, name: str, number: int, at_ms: int) -> bool:
        moved_ms, tokens, running, last_ms = 0, None, False, 0
        starts = [(row.number, row.at_ms) for row in self.before(number, "Started")]
        for row, told, same in self.readings(name, number):
            for _, began in [start for start in starts if start[0] < row.number]:
                moved_ms = max(moved_ms, began)
            running = bool(told.get("running"))
            now = told.get("tokens")
            if not running or now is None or (not same and now != tokens):
                moved_ms = row.at_ms
            tokens, last_ms = now, row.at_ms
        moved_ms = max([moved_ms, *(at for _, at in starts)])
        after_ms = self.settings(number)["eject"]["stall_after_ms"]
        return running and min(at_ms, last_ms) - moved_ms >= int(after_ms)

    def ejected_ms(self, name: str, number: int) -> int:
        out = [row.at_ms for row in self.health(name, number) if row.kind == "Ejected"]
        return out[-1] if out else 0

    def busy(self, name: str, number: int, at_ms: int) -> bool:
        ends = self.before(number, "Released") + self.before(number, "Failed")
        for row in [end for end in ends if end.body.get("retry_after_ms") is not None]:
            flight = self.rows[row.body["dispatch"] - 1]
            if flight.body["replica"] != name:
                continue
            counts = flight.at_ms > self.ejected_ms(name, row.number)
            if counts and row.at_ms + row.body["retry_after_ms"] > at_ms:
                return True
        return False

    def seen(self, name: str, number: int, at_ms: int, tried: Sequence[str]) -> Seen:
        rules = self.settings(number)
        mine = [row for row in self.open_flights(number) if row.body["replica"] == name]
        own, wlc_m = len(mine), sum(row.body["weight_m"] for row in mine)
        told = [
            (row.at_ms, one)
            for row, one, _ in self.readings(name, number)
            if one.get("running") is not None and one.get("waiting") is not None
        ]
        age_ms = at_ms - told[-1][0] if told else None
        limit_ms = rules["scrape"]["interval_ms"] * rules["scrape"]["stale_after"]
        stale = age_ms is None or age_ms > limit_ms
        running, waiting = own, 0
        if not stale:
            said = told[-1][1]
            foreign = max(0, said["running"] + said["waiting"] - said["own"])
            waiting = max(0, foreign + own - said["running"]) if said["waiting"] else 0
            running = foreign + own - waiting
        state, health = self.state(name, number), self.health(name, number)
        most = rules["admission"]["max_in_flight"]
        if state == "PROBING":
            most = min(most or 10**9, rules["probing"]["max_in_flight"])
        flags = {
            "stale": stale,
            "queue": waiting > 0,
            "busy": self.busy(name, number, at_ms),
            "stalled": self.stalled(name, number, at_ms),
            "full": bool(most) and own >= most,
            "tried": name in tried,
        }
        outs = [row for row in health if row.kind == "Ejected"]
        live = bool(health) and health[-1].kind == "Live"
        n, cooldown_ms = (outs[-1].body["n"], outs[-1].body["until_ms"] - at_ms) if outs else (0, 0)
        if live:
            cooldown_ms = 0
            if at_ms - health[-1].at_ms >= rules["eject"]["streak_reset_ms"]:
                n = 0
        return Seen(
            name,
            state,
            told[-1][1]["running"] if told else None,
            told[-1][1]["waiting"] if told else None,
            age_ms,
            own,
            wlc_m,
            running * 1000,
            max(running * 1000, wlc_m),
            waiting * 1000,
            max(0, cooldown_ms),
            n,
            frozenset(flag for flag, up in flags.items() if up),
        )

    # Pins

    def pin(self, kind: str, key: str, number: int) -> tuple[str, int, int, int] | None:
        """Replica, time of binding, spills in a row, last use; None without a pin."""
        moved = [
            row
            for row in self.before(number, "Bound", "Rebound", "Unbound")
            if row.body["kind"] == kind and row.body["key"] == key
        ]
        if not moved or moved[-1].kind == "Unbound":
            return None
        bound = moved[-1]
        home, spills, used_ms = bound.body["replica"], 0, bound.at_ms
        for row in self.rows[bound.number : number - 1]:
            if row.kind == "Dispatched" and row.body.get(kind) == key:
                if kind == "prefix" and not self.looks_at_prefix(row):
                    continue
                used_ms = row.at_ms
                if row.body["replica"] == home:
                    spills = 0
            elif row.kind == "Spilled" and (row.body["kind"], row.body["key"]) == (kind, key):
                spills += 1
            elif row.kind in ("Released", "Failed"):
                ended = self.rows[row.body["dispatch"] - 1]
                used_ms = row.at_ms if ended.body.get(kind) == key else used_ms
        return home, bound.at_ms, spills, used_ms

    def looks_at_prefix(self, row: Row) -> bool:
        session = row.body["session"]
        return session is None or self.pin("session", session, row.number) is None

    def found_pin(self, row: Row) -> tuple[str, str, str, int, int] | None:
        """Kind, key, replica, spills, time of binding of the pin that step 4 looks at."""
        rules, at_ms = self.settings(row.number)["pins"], row.at_ms
        for kind in ("session", "prefix"):
            key = row.body[kind]
            pin = self.pin(kind, key, row.number) if key is not None else None
            if key is None or pin is None:
                continue
            home, bound_ms, spills, used_ms = pin
            if kind == "session":
                runs = any(one.body["session"] == key for one in self.open_flights(row.number))
                over = not runs and at_ms - used_ms >= rules["session_ttl_ms"]
            else:
                over = at_ms - bound_ms >= rules["prefix_ttl_ms"]
            if not over:
                return kind, key, home, spills, bound_ms
        return None

    # The five steps

    def decide(self, number: int) -> Verdict:
        row = self.rows[number - 1]
        tried = row.body.get("tried", [])
        seen = tuple(self.seen(name, number, row.at_ms, tried) for name in self.joined(number))
        routable = [one for one in seen if one.state in ("LIVE", "PROBING")]
        names = tuple(one.name for one in routable)
        untried = [one for one in routable if one.name not in tried]
        if not untried:
            out = [one for one in seen if one.state == "EJECTED" and one.name not in tried]
            name = out[row.body["draw"] % len(out)].name
            return Verdict(name, "fallback", seen, names, (), None, 0, None)
        live = [one for one in untried if one.state == "LIVE"]
        free = [one for one in live or untried if "full" not in one.flags]
        calm = [one for one in free if one.state == "LIVE" and not _passed_over(one)]
        stay = calm or free
        least = self.least(number, stay, [one.name for one in seen])
        minimum_m = min(one.running_m for one in stay)
        pin = self.judged(row, seen, minimum_m)
        winner, reason = least, "load"
        if pin is not None and pin[4]:
            winner, reason = pin[2], f"affinity:{pin[0]}"
        stays = tuple(one.name for one in stay)
        return Verdict(winner, reason, seen, names, stays, least, minimum_m, pin)

    def least(self, number: int, stay: list[Seen], order: list[str]) -> str:
        """Least loaded; among equals the one that comes after the last one chosen for its load."""
        fewest = min(one.effective_running_m for one in stay)
        tied = [one.name for one in stay if one.effective_running_m == fewest]
        by_load = [r for r in self.before(number, "Dispatched") if r.body["reason"] == "load"]
        last = order.index(by_load[-1].body["replica"]) if by_load else -1
        return next((name for name in tied if order.index(name) > last), tied[0])

    def judged(
        self, row: Row, seen: Sequence[Seen], minimum_m: int
    ) -> tuple[str, str, str, int, bool] | None:
        found = self.found_pin(row)
        if found is None:
            return None
        kind, key, home, spills, bound_ms = found
        at = next(one for one in seen if one.name == home)
        slack = self.settings(row.number)["policy"]["slack"][kind]
        usable = (
            at.state == "LIVE"
            and bound_ms > self.ejected_ms(home, row.number)
            and not at.flags & {"tried", "full", "queue", "busy", "stalled"}
            and at.running_m <= minimum_m + slack * 1000
        )
        return kind, key, home, spills, usable


def _passed_over(one: Seen) -> bool:
    return bool(one.flags & {"queue", "busy", "stalled"})
