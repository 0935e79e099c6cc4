"""Generated workloads, and where ``--workload`` finds the others.

``agents:N``   N closed-loop coding agents, see ``agents``
``chat:...``   open-loop chat sessions, e.g. ``chat:rate=2,turns=4``, see ``ChatShape``
``conversation``   the public trace that comes with trioroute (data/README.md)
``FILE.jsonl[.gz]``   a trace or an exported event log (traces.py)
"""

import random
from importlib import resources
from pathlib import Path
from typing import Any

import attrs

from trioroute.nearest import hint
from trioroute.simulate.profiles import BLOCK_TOKENS
from trioroute.simulate.script import Request, Script, Turn, Workload, key
from trioroute.simulate.traces import BadWorkload, read_trace

PROJECTS = 4
SYSTEM_TOKENS = 8192
STEPS = 60
THINK_MS = 4000

_FORMS = "agents:N, chat:rate=2,turns=4, conversation, or a FILE.jsonl[.gz]"


def workload_of(text: str, seed: int) -> Workload:
    """The workload that ``text`` names. Raises BadWorkload, which says what would be right."""
    kind, colon, rest = text.partition(":")
    if kind == "agents" and colon:
        return Workload(text, agents(_count(text, rest), seed))
    if kind == "chat":
        return Workload(text, chat(_chat_shape(text, rest), seed))
    if text == "conversation":
        packed = resources.files("trioroute.simulate") / "data" / "mooncake-conversation.jsonl.gz"
        with resources.as_file(packed) as path:
            return Workload(text, read_trace(path))
    if text.endswith((".jsonl", ".jsonl.gz")):
        return Workload(text, read_trace(Path(text)))
    near = hint(kind, ("agents", "chat", "conversation"))
    raise BadWorkload(f"workload {text!r} is unknown: use {_FORMS}{near}")


def _count(text: str, rest: str) -> int:
    if not rest.isascii() or not rest.isdigit() or not 1 <= int(rest) <= 10_000:
        raise BadWorkload(f"workload {text!r}: agents:N needs N from 1 to 10000, such as agents:32")
    return int(rest)


class Blocks:
    """Hands out block ids; a text that grows keeps the ids of the blocks it has."""

    def __init__(self) -> None:
        self._next = 0

    def more(self, blocks: list[int], tokens: int) -> None:
        """Let ``blocks`` go on until they hold ``tokens``; only full ones count."""
        for _ in range(tokens // BLOCK_TOKENS - len(blocks)):
            blocks.append(self._next)
            self._next += 1


def agents(count: int, seed: int) -> tuple[Script, ...]:
    """Closed-loop coding agents of 4 projects, 60 steps each.

    A project's agents share an 8K-token system prompt. Behind it an agent's own context is 2K to
    20K tokens at the start and grows by 0.5K to 3K a step, its answer of 60 to 400 tokens among
    them. It thinks for an exponential time of mean 4 s before each step.
    """
    blocks = Blocks()
    systems: list[list[int]] = [[] for _ in range(PROJECTS)]
    for system in systems:
        blocks.more(system, SYSTEM_TOKENS)
    return tuple(
        _agent(number, systems[number % PROJECTS], blocks, random.Random(f"{seed}/agent/{number}"))
        for number in range(count)
    )


def _agent(number: int, system: list[int], blocks: Blocks, rng: random.Random) -> Script:
    session = key("session", f"agent-{number}")
    prefix = key("prefix", f"project-{number % PROJECTS}")
    text = list(system)
    tokens = SYSTEM_TOKENS + rng.randint(2000, 20_000)
    turns: list[Turn] = []
    for step in range(STEPS):
        answer = rng.randint(60, 400)
        blocks.more(text, tokens + answer)
        request = Request(f"agent-{number}:{step}", tokens, answer, tuple(text), session, prefix)
        turns.append(Turn(request, round(rng.expovariate(1 / THINK_MS))))
        tokens += rng.randint(500, 3000)
    return Script(0, tuple(turns))


@attrs.frozen(kw_only=True)
class ChatShape:
    """The keys of ``chat:`` with their defaults.

    Sessions begin at random (Poisson), so that ``rate`` requests a second come in the mean over
    ``minutes``. Each has ``turns`` turns: a first message of ``prompt`` tokens in the mean behind a
    system prompt of ``system`` tokens (one of ``projects``), then messages of ``message`` tokens;
    answers of ``answer`` tokens; ``think`` seconds between them. All but counts are exponential.
    """

    rate: float = 2.0
    turns: int = 4
    prompt: int = 1000
    message: int = 200
    answer: int = 200
    think: float = 10.0
    system: int = 1024
    projects: int = 1
    minutes: float = 10.0


def _chat_shape(text: str, rest: str) -> ChatShape:
    fields = {field.name: field for field in attrs.fields(ChatShape)}
    given: dict[str, Any] = {}
    for part in rest.split(",") if rest else ():
        name, equals, value = part.partition("=")
        if name not in fields or not equals:
            keys = ", ".join(fields)
            near = "" if name in fields else hint(name, fields)
            raise BadWorkload(f"workload {text!r}: {part!r} is not KEY=VALUE; keys: {keys}{near}")
        whole = fields[name].type is int
        try:
            number = int(value) if whole else float(value)
        except ValueError:
            number = -1
        least = 0 if name in ("system", "think") else 1 if whole else 1e-6
        if not least <= number <= 1_000_000:
            kind = "a whole number" if whole else "a number"
            raise BadWorkload(f"workload {text!r}: {name}={value} must be {kind} from {least:g} up")
        given[name] = number
    made: ChatShape = attrs.evolve(ChatShape(), **given)
    if made.rate * made.minutes * 60 > 5_000_000:
        raise BadWorkload(f"workload {text!r}: more than 5 million requests; lower rate or minutes")
    return made


def chat(shape: ChatShape, seed: int) -> tuple[Script, ...]:
    """Open-loop sessions of several turns, each turn on top of all before."""
    blocks = Blocks()
    systems: list[list[int]] = [[] for _ in range(shape.projects)]
    for system in systems:
        blocks.more(system, shape.system)
    rng = random.Random(f"{seed}/chat")
    scripts: list[Script] = []
    at_ms = 0.0
    while True:
        at_ms += rng.expovariate(shape.rate / shape.turns) * 1000
        if at_ms >= shape.minutes * 60_000:
            return tuple(scripts)
        number = len(scripts)
        project = rng.randrange(shape.projects)
        turns = _chat_turns(number, project, systems[project], shape, blocks, rng)
        scripts.append(Script(round(at_ms), turns))


def _chat_turns(
    number: int,
    project: int,
    system: list[int],
    shape: ChatShape,
    blocks: Blocks,
    rng: random.Random,
) -> tuple[Turn, ...]:
    def around(mean: int) -> int:
        return max(1, round(rng.expovariate(1 / mean)))

    session = key("session", f"chat-{number}")
    prefix = key("prefix", f"project-{project}") if shape.system else None
    text = list(system)
    tokens = shape.system + around(shape.prompt)
    turns: list[Turn] = []
    for turn in range(shape.turns):
        answer = around(shape.answer)
        blocks.more(text, tokens + answer)
        think_ms = round(rng.expovariate(1 / shape.think) * 1000) if turn and shape.think else 0
        request = Request(f"chat-{number}:{turn}", tokens, answer, tuple(text), session, prefix)
        turns.append(Turn(request, think_ms))
        tokens += answer + around(shape.message)
    return tuple(turns)
