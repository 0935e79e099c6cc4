"""How long a router that scrapes may write nothing."""

from trioroute.events.sections import InForce

SLACK_MS = 1000
"""What a round of scrapes may be late by itself: its jitter and its gathering are far less."""


def silence_max_ms(settings: InForce) -> int:
    """Every scrape of every round is a row or ends as one within ``scrape.timeout``: a longer hole
    in its log is of a router that stood still (a stopped process, a paused machine, swap)."""
    return settings.scrape.interval_ms + settings.scrape.timeout_ms + SLACK_MS
