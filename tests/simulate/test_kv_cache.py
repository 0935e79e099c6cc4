"""Blocks: shared while they are used, kept while there is room, evicted oldest first."""

from trioroute.simulate.kv_cache import KvCache


def keep(cache: KvCache, *blocks: int) -> None:
    """Compute a prompt of these blocks and give it back."""
    hits = cache.cached(blocks, len(blocks))
    assert cache.admit(blocks, hits, len(blocks) - hits)
    held = list(blocks[:hits])
    private = 0
    for block in blocks[hits:]:
        if cache.publish(block):
            held.append(block)
        else:
            private += 1
    cache.release(held, private)


def test_a_finished_prompt_is_found_again() -> None:
    cache = KvCache(10)
    keep(cache, 1, 2, 3)
    assert cache.cached((1, 2, 3, 4), 4) == 3
    assert cache.cached((1, 2, 3, 4), 2) == 2
    assert cache.cached((2, 3), 2) == 2  # an id stands for its whole prefix already
    assert (cache.in_use, cache.available, cache.unused) == (0, 10, 7)


def test_a_hole_ends_the_match() -> None:
    cache = KvCache(10)
    keep(cache, 1)
    keep(cache, 3)
    assert cache.cached((1, 2, 3), 3) == 1


def test_the_least_recently_used_goes_first_and_the_end_of_a_prompt_before_its_start() -> None:
    cache = KvCache(4)
    keep(cache, 1, 2)
    keep(cache, 3, 4)
    keep(cache, 1, 2)
    assert cache.take(1)
    assert cache.cached((3, 4), 2) == 1  # 4 went
    assert cache.take(1)
    assert cache.cached((3,), 1) == 0
    assert cache.cached((1, 2), 2) == 2
    assert cache.evictions == 2


def test_what_is_held_is_never_evicted() -> None:
    cache = KvCache(4)
    keep(cache, 1, 2)
    assert cache.admit((1, 2), 2, 0)
    assert not cache.take(3)
    assert cache.take(2)
    assert cache.cached((1, 2), 2) == 2


def test_hits_that_are_idle_are_no_room_for_the_same_request() -> None:
    cache = KvCache(3)
    keep(cache, 1, 2)
    assert not cache.admit((1, 2), 2, 2)
    assert cache.admit((1, 2), 2, 1)
    assert cache.available == 0


def test_a_second_copy_stays_private() -> None:
    cache = KvCache(4)
    assert cache.admit((), 0, 1)
    assert cache.admit((), 0, 1)
    assert cache.publish(7)
    assert not cache.publish(7)
    cache.release([], 1)
    assert (cache.in_use, cache.private) == (1, 0)


def test_a_process_that_died_has_cached_nothing() -> None:
    cache = KvCache(4)
    keep(cache, 1, 2)
    assert cache.admit((1,), 1, 1)
    cache.clear()
    assert cache.cached((1, 2), 2) == 0
    assert (cache.in_use, cache.unused) == (0, 4)
