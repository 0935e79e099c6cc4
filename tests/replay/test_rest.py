"""``--what-if``, the simulated part: engines fitted to the log, refused if they do not fit."""

import random
from collections.abc import Sequence
from typing import Any

import attrs
import orjson
import pytest

from eventlog.record import Entry
from tests.replay.logs import played, source_of
from tests.replay.rig import busy_day, store_of
from trioroute.replay import window as windows
from trioroute.replay.read import Source
from trioroute.replay.rest import MEAN_MAX, Rest, simulate_rest
from trioroute.replay.what_if import Exact, take_again
from trioroute.replay.window import Window
from trioroute.simulate.fit import FIT_MEDIAN_MAX, FIT_P90_MAX
from trioroute.simulate.measures import mean_s

WIDER = {"policy.slack.session": 4}


def both_parts(source: Source, changes: dict[str, Any] = WIDER) -> tuple[Exact, Window, Rest]:
    window = Window()
    exact = take_again(source, changes, window)
    return exact, window, simulate_rest(window, changes, lambda what, done, of: None)


def with_times(entries: Sequence[Entry], seed: int) -> list[Entry]:
    """The same log with times that have nothing to do with the work."""
    dice = random.Random(seed)
    made = []
    for entry in entries:
        body = orjson.loads(entry.body)
        if entry.kind == "Released":
            body["ttfb_ms"] = round(10 ** (dice.random() * 4))
            body["duration_ms"] = body["ttfb_ms"] + round(10 ** (2 + dice.random() * 3))
            entry = attrs.evolve(entry, body=orjson.dumps(body))
        made.append(entry)
    return made


@pytest.fixture(scope="module")
def answered() -> tuple[Exact, Window, Rest]:
    return both_parts(source_of(played(600)[0]))


def test_engines_are_found_that_explain_the_log(answered: tuple[Exact, Window, Rest]) -> None:
    _, _, rest = answered
    assert rest.refused is None
    assert rest.fit is not None
    assert rest.fit.ttft is not None
    assert rest.fit.duration is not None
    assert 0 <= rest.fit.ttft.median <= FIT_MEDIAN_MAX
    assert rest.fit.ttft.median <= rest.fit.ttft.p90 <= FIT_P90_MAX
    assert rest.fit.duration.requests > 500
    assert rest.means_off is not None
    assert max(abs(one) for one in rest.means_off) <= MEAN_MAX


def test_what_is_foreseen_is_what_happens(answered: tuple[Exact, Window, Rest]) -> None:
    """The same agents on the same engines, really played with the wider slack."""
    _, _, rest = answered
    assert rest.recorded is not None
    assert rest.changed is not None
    truth = mean_s(played(600, slack=4)[1].ttft_ns)
    assert rest.recorded.ttft_mean_s > 3 * truth
    assert rest.changed.ttft_mean_s == pytest.approx(truth, rel=0.3)
    assert rest.changed.spills < rest.recorded.spills / 5


def test_it_begins_at_the_first_difference(answered: tuple[Exact, Window, Rest]) -> None:
    exact, window, rest = answered
    assert exact.first is not None
    assert rest.begin == exact.first.decision == window.after[0].name
    assert rest.requests + rest.warm_up == 600
    assert rest.replicas == 4


def test_times_that_no_engine_explains_are_refused() -> None:
    exact, _, rest = both_parts(source_of(with_times(played(200)[0], 1)))
    assert exact.differ > 20
    assert rest.fit is not None
    assert not rest.fit.good
    assert rest.refused is not None
    assert rest.refused.startswith("no engine model explains the log's latencies: first byte off")
    assert f"{FIT_MEDIAN_MAX:.0%} and {FIT_P90_MAX:.0%}" in rest.refused
    assert rest.recorded is rest.as_recorded is rest.changed is None


def test_without_a_difference_nothing_is_simulated() -> None:
    exact, _, rest = both_parts(source_of(played()[0]), {"policy.slack.session": 1})
    assert exact.first is None
    assert rest == Rest(refused=rest.refused)
    assert "nothing to simulate" in (rest.refused or "")


def test_too_few_requests_prove_no_fit() -> None:
    _, _, rest = both_parts(source_of(played(400)[0][:150]))
    assert "an engine is fitted to 50 or more" in (rest.refused or "")
    assert rest.fit is None


def test_two_routers_are_not_simulated() -> None:
    store = store_of(busy_day(200).log.entries)
    store.append("router/r2", busy_day(200, seed=2).log.entries, 0)
    _, _, rest = both_parts(Source(store))
    assert "2 routers" in (rest.refused or "")


def test_the_window_ends_where_the_fleet_changes() -> None:
    _, window, rest = both_parts(source_of(played(400, faults="replica=1,down=200..230")[0]))
    assert window.ended is not None
    assert "there the fleet changed (Ejected gpu1)" in window.ended
    assert rest.end == window.ended
    assert 0 < rest.requests < 400


def test_the_window_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "REQUESTS_MAX", 60)
    window = Window()
    take_again(source_of(played()[0]), WIDER, window)
    assert len(window.after) == 60
    assert "60 requests are simulated at most" in (window.ended or "")
    assert len(window._flights) <= 60
