"""Every row of RULES 7 and the tests that hold it: in virtual time, for real, and switched off.

"Off" are the tests that show the guarantee gone once its rule is: without them a guarantee that
nothing upholds would pass. A row that has none says why.
"""

import ast
from functools import cache
from pathlib import Path

import attrs

ROOT = Path(__file__).parent.parent
RULES = ROOT / "trioroute/policy/RULES.md"

VIRTUAL = "tests/simulate/test_guarantees.py"
SOCKETS = "tests/proxy/test_guarantees.py"
PROCESSES = "tests/e2e/test_guarantees.py"
KILLS = "tests/e2e/test_kill9.py"
TROUBLE = "tests/e2e/test_trouble.py"


@attrs.frozen(kw_only=True)
class Row:
    """Tests as ``file::name``. ``whole`` says why there is nothing to switch off, ``long`` why
    there is nothing over sockets."""

    virtual: tuple[str, ...] = ()
    real: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    whole: str = ""
    long: str = ""


ROWS: dict[str, Row] = {
    "4 replicas, 40 agent sessions that share one system prompt, 2 h": Row(
        virtual=(f"{VIRTUAL}::test_forty_agents_with_one_system_prompt_stay_spread_for_two_hours",),
        off=(f"{VIRTUAL}::test_the_same_agents_crystallise_when_pins_neither_die_nor_spill",),
        long="two hours",
    ),
    "the same without 5.3 to 5.8": Row(
        virtual=(f"{VIRTUAL}::test_the_same_agents_crystallise_when_pins_neither_die_nor_spill",),
        whole="it is the row above switched off",
        long="two hours",
    ),
    "100 simultaneous requests between two scrapes, 4 idle replicas": Row(
        virtual=(f"{VIRTUAL}::test_a_hundred_requests_between_two_scrapes_are_spread_evenly",),
        real=(
            f"{SOCKETS}::test_a_hundred_at_once_between_two_scrapes_are_25_each",
            f"{SOCKETS}::test_four_heavy_ones_among_a_hundred_go_to_four_replicas",
        ),
        off=(f"{VIRTUAL}::test_without_reservations_the_hundred_go_to_one",),
    ),
    "2 requests at one instant, one replica idle, the others at 1": Row(
        virtual=(
            f"{VIRTUAL}::test_two_requests_at_one_instant_do_not_both_go_to_the_idle_replica",
        ),
        real=(
            f"{SOCKETS}::test_two_at_one_instant_do_not_both_take_the_idle_one",
            f"{SOCKETS}::test_both_take_it_where_it_stays_the_least_loaded",
            (
                "tests/e2e/test_process.py::"
                "test_two_clients_at_one_instant_do_not_share_the_idle_replica"
            ),
        ),
        off=(f"{VIRTUAL}::test_without_reservations_both_go_to_the_idle_replica",),
    ),
    "one 100K-token and ten 1K-token requests, no pins": Row(
        virtual=(f"{VIRTUAL}::test_ten_light_requests_go_around_one_heavy",),
        real=(f"{SOCKETS}::test_ten_light_ones_go_around_the_heavy_one",),
        off=(
            f"{VIRTUAL}::test_without_weights_they_do_not",
            f"{SOCKETS}::test_without_weights_some_join_the_heavy_one",
        ),
    ),
    "a replica is killed under load": Row(
        virtual=(
            (
                f"{VIRTUAL}::"
                "test_a_replica_killed_under_fifty_requests_a_second_costs_its_running_streams_only"
            ),
        ),
        real=(
            (
                f"{TROUBLE}::"
                "test_a_replica_killed_under_load_costs_no_client_an_error_but_those_streaming_on_it"
            ),
        ),
        off=(f"{VIRTUAL}::test_without_retries_the_same_kill_is_seen_by_more_clients",),
    ),
    "a replica revives while others serve": Row(
        virtual=(f"{VIRTUAL}::test_a_revived_replica_is_scraped_first_then_probed_then_live",),
        real=(
            (
                f"{PROCESSES}::"
                "test_a_revived_replica_gets_nothing_before_probing_and_no_pin_before_live"
            ),
        ),
        off=(
            f"{VIRTUAL}::test_without_the_way_back_a_revived_replica_gets_pins_at_once",
            f"{VIRTUAL}::test_without_a_cooldown_the_first_request_comes_right_after_the_return",
        ),
    ),
    "a replica is up 10 s and down 10 s for an hour": Row(
        virtual=(
            f"{VIRTUAL}::test_a_flapping_replica_climbs_the_ladder_of_cooldowns_and_holds_no_pin",
        ),
        off=(
            f"{VIRTUAL}::test_with_a_flat_cooldown_the_flapping_replica_is_ejected_far_more_often",
        ),
        long="an hour",
    ),
    "then it is stable": Row(
        virtual=(f"{VIRTUAL}::test_only_six_hundred_seconds_live_forgive_the_flapping",),
        off=(f"{VIRTUAL}::test_without_a_streak_the_flapping_is_forgiven_at_once",),
        long="ten minutes",
    ),
    "all replicas die, then one returns": Row(
        virtual=(f"{VIRTUAL}::test_when_all_died_the_first_to_return_is_not_flooded",),
        real=(f"{TROUBLE}::test_the_fallback_is_502_and_nobody_left_is_503_with_retry_after",),
        off=(f"{VIRTUAL}::test_without_the_limit_it_would_be",),
    ),
    "the router is killed (SIGKILL) under load and started again": Row(
        real=(
            f"{KILLS}::test_kills_under_load_lose_nothing",
            f"{KILLS}::test_pins_streaks_and_cooldowns_are_what_they_were",
            f"{KILLS}::test_orphans_are_named_in_the_log_and_their_weight_is_given_back",
        ),
        off=(
            (
                "tests/proxy/test_app_log.py::"
                "test_gate_off_answers_at_once_and_counts_what_was_not_logged_yet"
            ),
        ),
    ),
    "any log, any decision": Row(
        virtual=(
            "tests/replay/test_verify.py::test_a_busy_day_with_a_restart_is_verified",
            "tests/test_properties.py::test_any_course_of_events_keeps_the_books",
        ),
        real=(f"{PROCESSES}::test_a_real_log_is_asked_what_if",),
        off=(
            "tests/replay/test_verify.py::test_another_replica_than_decided_is_not_deterministic",
            "tests/replay/test_what_if.py::test_a_wider_slack_changes_what_a_naive_count_says",
        ),
    ),
    "a session idle for 61 minutes, a prefix bound 6 minutes ago": Row(
        virtual=(
            f"{VIRTUAL}::test_a_session_idle_for_an_hour_has_lost_its_pin",
            f"{VIRTUAL}::test_a_prefix_pin_dies_five_minutes_after_it_was_bound",
        ),
        off=(f"{VIRTUAL}::test_without_its_time_to_live_the_pin_is_still_there_after_a_day",),
        long="an hour",
    ),
    "an operator drains a replica": Row(
        virtual=(f"{VIRTUAL}::test_a_drained_replica_gets_nothing_new_and_finishes_what_it_has",),
        real=(f"{PROCESSES}::test_a_drained_replica_gets_nothing_new_and_its_streams_finish",),
        off=(f"{VIRTUAL}::test_the_same_replica_undrained_gets_its_share",),
    ),
}


def scenarios() -> list[str]:
    """The first column of the table in RULES 7."""
    section = RULES.read_text("utf-8").partition("\n## 7.")[2].partition("\n## 8.")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [row.split("|")[1].strip() for row in rows[1:]]


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


def test_every_row_of_rules_7_has_its_tests() -> None:
    assert scenarios() == list(ROWS)
    for scenario, row in ROWS.items():
        assert row.virtual or row.real, scenario
        assert bool(row.off) != bool(row.whole), f"{scenario}: nothing shows it switched off"
        assert bool(row.real) != bool(row.long), f"{scenario}: nothing over sockets"


def test_the_tests_named_are_there() -> None:
    for row in ROWS.values():
        for test in (*row.virtual, *row.real, *row.off):
            file, _, name = test.partition("::")
            assert name in functions_of(file), test
