"""Who comes where: counted without a name, for a while, within a bound."""

from trioroute.projections.conversations import (
    CONVERSATIONS_MAX,
    KNOWN_SLOTS,
    LIVE_SLOTS,
    SLOT_MS,
    Conversations,
)


def test_a_prompt_that_goes_on_is_the_same_conversation() -> None:
    known = Conversations()
    assert known.ask("a", (1, 2), 0) == 0
    assert known.ask("a", (1, 2, 3), 10) == 2
    assert known.live("a", 10) == 1
    assert known.counted(3, "a", 10)
    assert not known.counted(2, "a", 10)


def test_a_shared_beginning_makes_two_and_a_branch_a_third() -> None:
    known = Conversations()
    known.ask("a", (1, 2), 0)
    assert known.ask("a", (1, 3), 0) == 0
    assert known.live("a", 0) == 2
    known.ask("a", (1, 2, 4), 0)
    assert known.ask("a", (1, 2, 5), 0) == 0
    assert known.live("a", 0) == 3


def test_who_moves_is_counted_where_it_went() -> None:
    known = Conversations()
    known.ask("a", (1,), 0)
    assert known.ask("b", (1, 2), 0) == 1
    assert (known.live("a", 0), known.live("b", 0)) == (0, 1)
    assert not known.counted(2, "a", 0)


def test_who_pauses_is_no_longer_expected_but_known_again() -> None:
    known = Conversations()
    known.ask("a", (1,), 0)
    known.ask("a", (2,), SLOT_MS)
    assert known.live("a", SLOT_MS * LIVE_SLOTS - 1) == 2
    assert known.live("a", SLOT_MS * LIVE_SLOTS) == 1
    assert not known.counted(1, "a", SLOT_MS * LIVE_SLOTS)
    assert known.ask("a", (1, 3), SLOT_MS * (KNOWN_SLOTS - 1)) == 1
    known.ask("a", (4,), SLOT_MS * (KNOWN_SLOTS + 1))
    assert list(known.last) == [3, 4]
    assert sum(known.asked["a"].values()) == 2


def test_a_prompt_without_a_full_block_is_nobody() -> None:
    known = Conversations()
    assert known.ask("a", (), 0) == 0
    assert known.live("a", 0) == 0


def test_a_replica_that_lost_its_cache_has_nobody() -> None:
    known = Conversations()
    known.ask("a", (1,), 0)
    known.ask("b", (2,), 0)
    known.forget("a")
    assert (known.live("a", 0), known.live("b", 0)) == (0, 1)
    assert known.ask("b", (1, 3), 0) == 0


def test_too_many_forget_the_oldest() -> None:
    known = Conversations()
    for number in range(1, CONVERSATIONS_MAX + 11):
        known.ask("a", (number,), 5)
    assert known.live("a", 5) == len(known.last) == CONVERSATIONS_MAX
    assert not known.counted(10, "a", 5)
    assert known.counted(11, "a", 5)


def test_after_a_clock_was_set_back_nobody_asked_later_than_now() -> None:
    known = Conversations()
    known.ask("a", (1,), 90 * SLOT_MS)
    known.ask("b", (2,), 100 * SLOT_MS)
    known.ask("b", (3,), 101 * SLOT_MS)
    known.step_back(95 * SLOT_MS)
    assert known.last == {1: ("a", 90), 2: ("b", 95), 3: ("b", 95)}
    assert known.asked == {"a": {90: 1}, "b": {95: 2}}
    assert known.live("b", 95 * SLOT_MS) == 2
    assert known.live("b", (95 + LIVE_SLOTS) * SLOT_MS) == 0
