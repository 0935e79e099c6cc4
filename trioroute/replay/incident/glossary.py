"""What the words of a report mean to someone who meets them for the first time."""

import re
from collections.abc import Iterable

WORDS = {
    "fin": "the connection was closed before the answer was complete",
    "reset": "the connection was reset",
    "refused": "nobody listens at the port: the connection was refused; of a request: turned away",
    "timeout": "nothing came within a limit of time",
    "upstream_cut": "an answer of a replica that broke off after its first byte",
    "upstream_empty": "an answer of a replica that ended without a word",
    "upstream_error": "a replica gave an error, or no answer",
    "first_byte_timeout": "no byte of an answer within timeouts.first_byte",
    "idle_timeout": "an answer fell silent for timeouts.idle",
    "log_stalled": "the event log could not be written in time; the client got a 503",
    "overloaded": "no replica had room, and the line was full or too slow; the client got a 503",
    "EJECTED": "taken out of traffic by the rules of health; comes back by itself",
    "eject": "a replica is taken out of traffic; in a row: again before it was well for long",
    "delayed": "answered, but its first byte came late, counted from when the request came: its "
    "time in line and its earlier attempts are in it. Late is three times the usual or "
    "more, and twice what is slow or more, and 100 ms after the usual. Usual is the "
    "median of requests of the same model, kind of answer (in pieces, or whole) and "
    "size of prompt; slow is the second latest of 20 of them on a replica. Who left "
    "without a byte after that long counts too",
    "stalled": "of a replica: it runs requests and its counter of tokens stands still",
    "PROBING": "back with a little traffic after an eject, until it has proved itself",
    "LIVE": "in traffic",
    "slack": "how many more requests a pin's replica may run than the least busy one",
    "spill": "a request that went elsewhere than its pin said",
    "rebind": "a pin that was moved to another replica",
    "pin": "where a session or a shared prefix went before, and is sent again",
    "RULES": "the numbered rules of routing, trioroute/policy/RULES.md",
}


def words_of(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The words that occur in ``texts``, each with its meaning."""
    found = set(re.findall(r"[A-Za-z_]+", " ".join(texts)))
    found |= {one.removesuffix("s") for one in found if one in ("spills", "rebinds", "pins")}
    return tuple((word, meaning) for word, meaning in WORDS.items() if word in found)
