"""Counts with their nouns, as people read them."""


def plural(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun: "1 digest", "2 digests"."""
    return f"{count} {one if count == 1 else many or one + 's'}"
