"""``trioroute replay``: why did this request go there, and is the log true?"""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from eventlog.errors import REMEDIES
from eventlog.targets import refuse_the_log
from eventlog.whole_file import write_whole
from trioroute.cli.lazy import importing
from trioroute.cli.replay_answer import RULES_OF_TODAY, Answer, Asked
from trioroute.cli.replay_source import CHECK_FAILED, failures, opened
from trioroute.printable import printable
from trioroute.replay.clock import times_in_utc
from trioroute.replay.read import CannotRead, Source

_EXAMPLE = """
\b
Examples:
  trioroute replay trioroute-log --last 20
  trioroute replay trioroute-log --decision r1/42
  trioroute replay trioroute-log --requests "around 14:03" --where replica=gpu3
  trioroute replay trioroute-log --session my-conversation --json
  trioroute replay trioroute-log --replica gpu1 --since -1h
  trioroute replay trioroute-log --at -15m
  trioroute replay trioroute-log --incident 2026-03-01T14:00/15:00 --html incident.html
  trioroute replay trioroute-log --verify
  trioroute replay trioroute-log --verify --rules-of-today
  trioroute replay trioroute-log --what-if policy.slack.session=4
  trioroute replay trioroute-log --what-if policy.name=least-work --since -1h
  trioroute replay trioroute-log --watch --only gpu1
  trioroute replay trioroute-log --step -15m
  trioroute replay log-before --compare log-after
"""

_ONE_THING = "trioroute.cli.replay_answers"
_REPORTS = "trioroute.cli.replay_reports"
_LIVE = "trioroute.cli.replay_live"
_WHAT_IF = "trioroute.cli.what_if"
_ANSWERS = {
    "decision": (_ONE_THING, "decision_answer"),
    "request": (_ONE_THING, "request_answer"),
    "requests": (_ONE_THING, "requests_answer"),
    "session": (_ONE_THING, "session_answer"),
    "replica": (_ONE_THING, "replica_answer"),
    "at": (_ONE_THING, "at_answer"),
    "last": (_ONE_THING, "last_answer"),
    "verify_all": (_REPORTS, "verify_answer"),
    "what_if": (_WHAT_IF, "what_if_answer"),
    "incident": (_REPORTS, "incident_answer"),
    "compare": (_REPORTS, "compare_answer"),
    "watch": (_LIVE, "watch_answer"),
    "step": (_LIVE, "step_answer"),
}
"""Where each question is answered: only that is imported, for an answer should be quick."""


_SPAN = ("replica", "compare", "what_if")
_NEEDS = {
    "markdown": (("incident",), " FROM/TO"),
    "html": (("incident",), " FROM/TO"),
    "rules_of_today": (("verify_all",), ""),
    "since": (_SPAN, "; --incident takes FROM/TO"),
    "until": (_SPAN, "; --incident takes FROM/TO"),
    "where": (("requests",), ""),
    "only": (("watch", "step"), "; --replica and --session tell of one"),
}
"""The questions that an option goes with, and what helps with others."""


_HINTS = {
    frozenset({"last", one}): f"; --requests -1h --where {one}=NAME lists those of one {one}"
    for one in ("replica", "session")
}
"""What two questions together may have meant."""


class _Replay(click.Command):
    """Without quotes, the time of ``around`` would be an argument too many."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for one, after, time in zip(args, args[1:], args[2:], strict=False):
            if one in ("--requests", "--incident") and after == "around":
                raise click.UsageError(f'write it in quotes: {one} "around {time}"', ctx)
        return super().parse_args(ctx, args)


@click.command("replay", cls=_Replay, epilog=_EXAMPLE)
@click.argument("log", metavar="LOG", type=click.Path(path_type=Path))
@click.option("--decision", metavar="ROUTER/N", help="Explain one decision, such as r1/42.")
@click.option("--request", metavar="ID", help="Explain every attempt of a request.")
@click.option(
    "--requests",
    metavar="FROM/TO",
    help='The requests of that time, or of "around 14:03", with their ids: see --where.',
)
@click.option("--session", metavar="KEY", help="Decisions and pins of a session: key or digest.")
@click.option("--replica", metavar="NAME", help="A replica's health history and dispatches.")
@click.option("--at", metavar="TIME", help="The state then: ISO time, or -15m before the end.")
@click.option(
    "--incident",
    metavar="FROM/TO",
    help='What happened between two times (-1h: the last hour), or "around 14:05": phases, first '
    "cause, who was hit.",
)
@click.option("--last", metavar="N", type=click.IntRange(1, 10_000), help="The last N decisions.")
@click.option("--verify", "verify_all", is_flag=True, help="Take every decision again; 1 if not.")
@click.option(
    "--rules-of-today",
    is_flag=True,
    help="With --verify: count what this release would decide otherwise, by cause.",
)
@click.option(
    "--what-if",
    "what_if",
    multiple=True,
    metavar="KEY=VALUE",
    help="How many decisions other settings would have changed; repeat for more than one.",
)
@click.option("--compare", metavar="OTHER_LOG", help="LOG and another log side by side.")
@click.option("--watch", is_flag=True, help="Print what happens from now on, until Ctrl-C.")
@click.option(
    "--step",
    metavar="PLACE",
    help="Walk event by event from r1/42, a time, start or end; a key a step.",
)
@click.option(
    "--since",
    metavar="TIME",
    help="With --replica, --compare or --what-if: only what came since then (-1h: the last hour).",
)
@click.option("--until", metavar="TIME", help="With those: only what came until then.")
@click.option(
    "--only",
    metavar="NAME",
    help="With --watch or --step: only what is about one replica or session.",
)
@click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    help="With --requests: only those of a model, replica, key, session, reason, outcome (such as "
    "failed) or status (that its client got), or attempts that ended so (attempt=failed); repeat "
    "for more than one.",
)
@click.option("--json", "as_data", is_flag=True, help="The same as JSON.")
@click.option("--markdown", is_flag=True, help="The --incident as Markdown.")
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the --incident as one HTML page with plots.",
)
@click.option("--utc", is_flag=True, help="Show times in UTC, and read them so without offset.")
@click.option("--lenient", is_flag=True, help="Pass over events of a newer trioroute.")
def replay_command(
    log: Path,
    *,
    as_data: bool,
    markdown: bool,
    html: Path | None,
    utc: bool,
    lenient: bool,
    rules_of_today: bool,
    since: str | None,
    until: str | None,
    only: str | None,
    where: tuple[str, ...],
    **what: Any,  # noqa: ANN401 - the questions, by option name
) -> None:
    """Explain and prove what the router decided, from its log.

    LOG is a log directory or one .sqlite file of it; the log of a running router may be read.
    Without a question: the last 20 decisions. Exit codes: 0 ok, 1 a check failed or nothing was
    found, 2 wrong usage or a log that cannot be read.
    """
    question = _question(what)
    _check_options(
        question,
        markdown=markdown,
        html=html,
        rules_of_today=rules_of_today,
        since=since,
        until=until,
        only=only,
        where=where,
    )
    if as_data and markdown:
        raise click.UsageError("--json and --markdown are two forms of one answer: choose one")
    if as_data and question == "step":
        raise click.UsageError("--step is for a terminal and has no --json; see --watch --json")
    chosen = RULES_OF_TODAY if rules_of_today else what[question]
    asked = Asked(chosen, since, until, only, where)
    answer = _answer_of(question)
    proving = question == "verify_all"
    with failures(), times_in_utc(utc), opened(log, lenient, proving=proving) as source:
        found = answer(source, log, asked)
        if html is not None and found.page is not None:
            _write(log, html, found.page())
        _print(found, as_data=as_data, markdown=markdown)
        if found.behind is not None:
            sys.stdout.flush()
            found.behind()
    if not found.good:
        sys.exit(CHECK_FAILED)


def _question(what: dict[str, Any]) -> str:
    """The one that was asked. Raises UsageError where there are more."""
    asked = [name for name, value in what.items() if value not in (None, False, ())]
    if len(asked) > 1:
        options = " and ".join(map(_option, asked))
        hint = _HINTS.get(frozenset(asked), "")
        raise click.UsageError(f"one question at a time: {options} were given{hint}")
    return asked[0] if asked else "last"


def _option(name: str) -> str:
    return f"--{name.removesuffix('_all').replace('_', '-')}"


def _check_options(question: str, **given: object) -> None:
    for name, value in given.items():
        questions, hint = _NEEDS[name]
        if value not in (None, False, ()) and question not in questions:
            needed = " or ".join(", ".join(map(_option, questions)).rsplit(", ", 1))
            raise click.UsageError(f"{_option(name)} needs {needed}{hint}")


def _answer_of(question: str) -> Callable[[Source, Path, Asked], Answer]:
    module, name = _ANSWERS[question]
    with importing():
        answer: Callable[[Source, Path, Asked], Answer]
        answer = getattr(importlib.import_module(module), name)
    return answer


def _print(found: Answer, *, as_data: bool, markdown: bool) -> None:
    if as_data and found.lines is not None:
        found.lines()
    elif as_data:
        click.echo(json.dumps(found.data))
    elif markdown and found.markdown is not None:
        click.echo(printable(found.markdown()), nl=False)
    else:
        found.show()


def _write(log: Path, file: Path, text: str) -> None:
    try:
        refuse_the_log(log, file)
        if file.exists() and not file.is_file():  # /dev/stdout, a pipe: it has no other name
            file.write_text(text)
        else:
            place = file.resolve()
            place.parent.stat()  # it is not made here
            write_whole(place, text.encode())  # an older page stays where the disk is full
    except BrokenPipeError:  # /dev/stdout, whose reader has enough
        raise
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "give a file in a directory that exists")
        raise CannotRead(
            f"--html {file}: cannot be written ({error.strerror}): {remedy}"
        ) from error
    click.echo(f"wrote {file}", err=True)
