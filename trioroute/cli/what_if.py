"""``trioroute replay LOG --what-if KEY=VALUE``: the question read, and answered."""

from collections.abc import Callable, Sequence
from pathlib import Path

from trioroute.cli.replay_answer import Answer, Asked, shown_progress
from trioroute.events import InForce
from trioroute.replay.acting import idle
from trioroute.replay.caveats import caveats, left_out
from trioroute.replay.present import console_for
from trioroute.replay.present_what_if import Changed, WhatIf, present_what_if, what_if_data
from trioroute.replay.read import BadQuestion, Source
from trioroute.replay.rest import simulate_rest
from trioroute.replay.what_if import Exact, take_again
from trioroute.replay.window import Window
from trioroute.replay.within import ALL, Within
from trioroute.settings import SettingsError, with_changes
from trioroute.settings.setting_words import setting_words

Told = Callable[[str, int, int], None]
"""Told what is done, how much of it, and of how much."""


def what_if_answer(source: Source, log: Path, asked: Asked) -> Answer:
    changes = read_changes(asked.what)
    with shown_progress() as told:
        found = answer(source, changes, told, asked.within(source))
    return Answer(what_if_data(found), lambda: present_what_if(console_for(), found))


def read_changes(texts: Sequence[str]) -> dict[str, object]:
    """The settings asked for. Raises BadQuestion: no KEY=VALUE, a wrong key (naming the nearest),
    a wrong value, or nothing that acts on a choice."""
    changes: dict[str, object] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise BadQuestion(f"--what-if {text}: needs KEY=VALUE, e.g. policy.slack.session=4")
        changes[key.strip()] = value.strip()
    try:
        with_changes(InForce(), changes)
    except SettingsError as error:
        raise BadQuestion("; ".join(str(problem) for problem in error.problems)) from None
    without = idle(changes)
    if len(without) == len(changes):
        raise BadQuestion(f"{'; '.join(without)}: --what-if asks for settings of the choice")
    return changes


def _recorded(exact: Exact, key: str) -> str:
    """What was in force for the requests of the span, one value after the other."""
    seen = exact.settings_seen or [exact.settings]
    values = [setting_words(one, key) for one in seen]
    told = [one for at, one in enumerate(values) if at == 0 or values[at - 1] != one]
    return ", then ".join(told)


def answer(source: Source, changes: dict[str, object], told: Told, within: Within = ALL) -> WhatIf:
    """Both parts of the answer, for the decisions of a span. Raises BadQuestion, CannotRead,
    NotFound where there is none."""
    window = Window()
    source.last()
    try:
        exact = take_again(
            source,
            changes,
            window,
            lambda done, of: told("taking decisions again", done, of),
            within,
        )
    except SettingsError as error:
        raise BadQuestion("; ".join(str(problem) for problem in error.problems)) from None
    changed = with_changes(exact.settings, changes)
    return WhatIf(
        changes=tuple(
            Changed(key=key, recorded=_recorded(exact, key), changed=setting_words(changed, key))
            for key in changes
        ),
        within=None if within == ALL else within,
        notes=(*idle(changes), *caveats(exact, changes), *left_out(exact)),
        exact=exact,
        rest=simulate_rest(window, changes, told),
    )
