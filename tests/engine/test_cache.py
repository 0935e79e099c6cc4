"""The prefix cache."""

from trioroute.engine.cache import PrefixCache


def test_only_leading_blocks_count_as_a_hit() -> None:
    cache = PrefixCache(8)
    cache.insert([b"a", b"b", b"c"])
    assert cache.match([b"a", b"b", b"x", b"c"]) == 2
    assert cache.match([b"x", b"a"]) == 0


def test_the_least_recently_used_prefix_goes_first_and_loses_its_tail_first() -> None:
    cache = PrefixCache(4)
    cache.insert([b"a1", b"a2"])
    cache.insert([b"b1", b"b2"])
    assert cache.match([b"a1", b"a2"]) == 2
    cache.insert([b"c1"])
    assert len(cache) == 4
    assert cache.match([b"b1", b"b2"]) == 1
    assert cache.match([b"a1", b"a2"]) == 2


def test_a_prompt_larger_than_the_cache_keeps_its_head() -> None:
    cache = PrefixCache(2)
    cache.insert([b"a", b"b", b"c"])
    assert cache.match([b"a", b"b", b"c"]) == 2
    assert len(cache) == 2


def test_a_cache_of_no_blocks_holds_nothing() -> None:
    cache = PrefixCache(0)
    cache.insert([b"a"])
    assert cache.match([b"a"]) == 0
