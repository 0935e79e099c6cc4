"""The story of a refused request on a screen."""

from rich.console import Console

from trioroute.replay.present import replica_table, say
from trioroute.replay.refused import RefusedTold


def present_refused(console: Console, told: RefusedTold) -> None:
    """The sentence first, then who was what, then what helps."""
    of = f" for {told.model}" if told.model else ""
    say(console, f"request {told.request_id}{of} was refused, never dispatched", "bold")
    say(console, f"at        {told.at} ({told.place})")
    say(console, f"got       {told.client}")
    say(console, f"key       {told.key or 'none'}")
    say(console, f"cause     {told.cause}")
    if told.replicas:
        console.print()
        say(console, f"the replicas of {told.model} at that row:")
        console.print(replica_table(told.replicas))
        console.print()
    for remedy in told.remedies:
        say(console, f"remedy    {remedy}")
