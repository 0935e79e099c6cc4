"""What ``--what-if`` cannot know from a log, or leaves out, in words."""

from collections.abc import Mapping

from trioroute.counted import plural
from trioroute.policy.policies import POLICIES
from trioroute.replay.what_if import Exact


def left_out(found: Exact) -> list[str]:
    """That refused requests are not among the decisions, if there were any."""
    if not found.refusals:
        return []
    codes = ", ".join(f"{code} {count}" for code, count in found.refusals.items())
    refused = plural(sum(found.refusals.values()), "request")
    said = f"{refused} refused in this time ({codes}) are left out: no decision was made that could"
    return [f"{said} be taken again; --request with the id of one tells what would have helped"]


def caveats(found: Exact, changes: Mapping[str, object]) -> list[str]:
    """What another policy cannot know from a log that was written under this one."""
    said: list[str] = []
    wanted = changes.get("policy.name")
    recorded = [name for name in found.policies if name != wanted]
    if wanted not in POLICIES or not recorded:
        return said
    if wanted == "least-work":
        said.append(
            "the log was written under soft-sticky and holds no prompt blocks: in the exact part "
            "least-work takes every prompt as nowhere cached; that it makes no pins is not counted"
        )
    else:
        said.append(
            "the log was written under least-work, which makes no pins: in the exact part "
            "soft-sticky finds none; that it would make some is not counted"
        )
    return said
