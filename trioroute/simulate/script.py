"""What clients want, laid out before the run: the same for every policy that is compared."""

from collections.abc import Sequence

import attrs

from trioroute.policy.keys import KeyKind, digest_key
from trioroute.projections.prompts import BLOCKS_MAX
from trioroute.simulate.profiles import BLOCK_TOKENS

MODEL = "sim"
BYTES_PER_TOKEN = 4
"""What the router's estimate starts from too (``wlc.bytes_per_token``)."""

SECRET = bytes(32)
"""Digests in a simulation hide nothing; a fixed key makes them the same in every run."""


def key(kind: KeyKind, name: str) -> str:
    """The digest of a session or prefix, as the proxy would make it."""
    return digest_key(SECRET, kind, MODEL, name)


@attrs.frozen(slots=True)
class Request:
    """One prompt and the answer it will get.

    ``blocks``: ids of its full 512-token blocks, each standing for its whole prefix; they may go
    on past the prompt where the text that follows the answer is known to hold it. ``follows``: full
    blocks of the prompt it goes on from, and tokens of that one and its answer; where an engine has
    the blocks it has the tokens too, as real blocks are smaller.
    """

    name: str
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]
    session: str | None = None
    prefix: str | None = None
    follows: tuple[int, int] = (0, 0)

    @property
    def named_blocks(self) -> tuple[int, ...]:
        """The prompt's full blocks as the proxy would name them: digests are never 0."""
        full = min(BLOCKS_MAX, self.prompt_tokens // BLOCK_TOKENS)
        return tuple([block + 1 for block in self.blocks[:full]])


@attrs.frozen(slots=True)
class Turn:
    """A request and how long its client thinks before it, after the answer before."""

    request: Request
    think_ms: int = 0


@attrs.frozen(slots=True)
class Script:
    """One client: its first turn begins at ``start_ms``, each later one when the one before ended
    and it has thought. A request of an open-loop trace is a client of one turn."""

    start_ms: int
    turns: tuple[Turn, ...]


@attrs.frozen
class Workload:
    """Every client of a run; ``name`` is what the user asked for."""

    name: str
    scripts: tuple[Script, ...]

    @property
    def requests(self) -> int:
        return sum(len(script.turns) for script in self.scripts)


def cut(workload: Workload, requests: int) -> Workload:
    """The first ``requests``: every client's first turn, then every second one, and so on."""
    left = requests
    kept = [0] * len(workload.scripts)
    depth = 0
    while left > 0 and any(len(script.turns) > depth for script in workload.scripts):
        for at, script in enumerate(workload.scripts):
            if left and len(script.turns) > depth:
                kept[at] += 1
                left -= 1
        depth += 1
    scripts = _first_turns(workload.scripts, kept)
    return attrs.evolve(workload, scripts=scripts)


def _first_turns(scripts: Sequence[Script], kept: Sequence[int]) -> tuple[Script, ...]:
    return tuple(
        attrs.evolve(script, turns=script.turns[:count])
        for script, count in zip(scripts, kept, strict=True)
        if count
    )


def at_rate(workload: Workload, rate: float) -> Workload:
    """The same clients, beginning ``rate`` times as densely."""
    scripts = [
        attrs.evolve(script, start_ms=round(script.start_ms / rate)) for script in workload.scripts
    ]
    return attrs.evolve(workload, scripts=tuple(scripts))
