"""The budget of retries: a share of the last ten seconds, and three in any case."""

from trioroute.policy.retry_budget import ALWAYS_ALLOWED, RetryBudget

T = 1_700_000_000_000
FIFTH = 200


def taken(budget: RetryBudget, at_ms: int, budget_m: int = FIFTH) -> int:
    count = 0
    while budget.try_again(at_ms, budget_m):
        count += 1
    return count


def requests(budget: RetryBudget, count: int, at_ms: int = T) -> None:
    for _ in range(count):
        budget.request(at_ms)


def test_three_are_always_allowed() -> None:
    assert taken(RetryBudget(), T) == ALWAYS_ALLOWED == 3
    few = RetryBudget()
    requests(few, 15)
    assert taken(few, T) == 3
    assert taken(RetryBudget(), T, budget_m=0) == 3


def test_more_is_a_share_of_the_requests() -> None:
    many = RetryBudget()
    requests(many, 100)
    assert taken(many, T) == 20
    requests(many, 50)
    assert taken(many, T) == 10
    assert not many.try_again(T, FIFTH)


def test_a_refused_retry_takes_nothing() -> None:
    budget = RetryBudget()
    assert taken(budget, T) == 3
    for _ in range(100):
        assert not budget.try_again(T, FIFTH)
    requests(budget, 20)
    assert taken(budget, T) == 1


def test_what_is_ten_seconds_old_counts_no_more() -> None:
    budget = RetryBudget()
    requests(budget, 100)
    assert taken(budget, T + 8_000) == 20
    assert taken(budget, T + 11_000) == 0, "twenty retries are younger than the requests"
    assert taken(budget, T + 20_000) == 3


def test_its_memory_is_bounded() -> None:
    budget = RetryBudget()
    for second in range(1000):
        requests(budget, 2, T + second * 1000)
        budget.try_again(T + second * 1000, FIFTH)
    assert len(budget._slots) <= 10
