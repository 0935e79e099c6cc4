"""The search for reference cycles is as it was after a log was read, whatever happened."""

import gc

import pytest

from trioroute.rare_gc import THRESHOLD, rare_gc


def test_it_is_rare_within_and_as_before_after() -> None:
    before = gc.get_threshold()
    with rare_gc():
        assert gc.get_threshold()[0] == THRESHOLD
        with rare_gc():
            pass
        assert gc.get_threshold()[0] == THRESHOLD
    assert gc.get_threshold() == before


def test_an_error_within_changes_nothing_of_that() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyError), rare_gc():
        raise KeyError
    assert gc.get_threshold() == before
