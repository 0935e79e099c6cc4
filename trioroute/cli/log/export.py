"""``trioroute log export``: events as JSON lines."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO

import click

from eventlog import Record
from eventlog.reading import SqliteReader
from eventlog.snapshots import Snapshots
from eventlog.targets import refuse_the_log
from trioroute.cli.failures import fail, heard, warn
from trioroute.cli.log.chosen import OfReplicas
from trioroute.cli.log.proved import Proved, line, line_of_any
from trioroute.cli.log.words import CANNOT, CHECK_FAILED, Bar, failures, log_argument
from trioroute.events.codec import KINDS
from trioroute.replay.clock import parse_point
from trioroute.replay.read import BadQuestion, CannotRead, NotFound, Source
from trioroute.replay.replica import check_known
from trioroute.replay.words import plural

EPILOG = """\b
Examples:
  trioroute log export trioroute-log > events.jsonl
  trioroute log export trioroute-log --since -1h --kind Dispatched --kind Released
  duckdb -c "SELECT body->>'replica', count(*) FROM read_json('events.jsonl',
      columns={kind: 'VARCHAR', at_ms: 'BIGINT', body: 'JSON'}) GROUP BY 1"
"""

PART = ".part"
"""Added to the name of the file while it is not whole, behind the number of the process that writes
it: two at once would write into each other's draft."""


@click.command("export", epilog=EPILOG)
@log_argument
@click.option("--since", metavar="TIME", help="From then on: ISO time, or -15m before the end.")
@click.option("--until", metavar="TIME", help="Until then.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only these; repeat.")
@click.option("--replica", "replicas", multiple=True, metavar="NAME", help="Only of these; repeat.")
@click.option("--output", type=click.Path(path_type=Path), help="A file instead of stdout.")
@click.option("--json", "as_data", is_flag=True, help="JSON lines, which it is in any case.")
def export_command(
    log: Path,
    since: str | None,
    until: str | None,
    kinds: tuple[str, ...],
    replicas: tuple[str, ...],
    output: Path | None,
    as_data: bool,
) -> None:
    """Write the events of LOG as JSON lines: one object a row, its body as an object in it.

    A row that is not as it was written, as its chain value tells, is named, and the exit code is 1.

    Exit codes: 0 ok, 1 damage or a --replica that the log does not know, 2 wrong usage or a log
    that cannot be read.
    """
    for kind in kinds:
        if kind not in KINDS:
            near = get_close_matches(kind, KINDS, 1, 0.5)
            hint = f"did you mean {near[0]}? There are" if near else "there are"
            raise click.UsageError(f"--kind {kind}: no such kind; {hint} {', '.join(KINDS)}")
    with failures(), SqliteReader.open(log) as reader:
        if output is not None:
            refuse_the_log(log, output)
        _check_known(log, reader, replicas)
        head = reader.head().seq
        last = reader.read(head - 1, 1) if head else []
        last_ms = last[0].at_ms if last else 0
        try:
            since_ms = None if since is None else parse_point(since, last_ms)
            until_ms = None if until is None else parse_point(until, last_ms)
        except BadQuestion as error:
            raise click.UsageError(str(error)) from None
        after = 0 if since_ms is None else reader.last_until(since_ms - 1)
        of_replicas = OfReplicas(replicas)
        proved = Proved(reader)
        rows = _chosen(proved.rows(after, head), since_ms, until_ms, kinds, of_replicas)
        with Bar("exporting", shown=output is not None) as bar:
            if output is None:
                with heard():
                    written = _write(rows, sys.stdout.buffer, head, bar)
            else:
                with _whole(output) as file:
                    written = _write(rows, file, head, bar)
        for text in of_replicas.unmet():
            warn(text)
    if output is not None:
        click.echo(f"wrote {plural(written, 'event')} to {output}", err=True)
    if changed := proved.words():
        fail(changed, CHECK_FAILED)


def _check_known(log: Path, reader: SqliteReader, replicas: tuple[str, ...]) -> None:
    """Before anything is written: a name that is wrong gives no file that looks like no traffic."""
    if not replicas:
        return
    source = Source(reader, snapshots=Snapshots(log) if log.is_dir() else None)
    try:
        for name in replicas:
            check_known(source, name)
    except NotFound as error:
        fail(str(error), CHECK_FAILED)
    except CannotRead as error:
        fail(str(error), CANNOT)


@contextmanager
def _whole(output: Path) -> Iterator[BinaryIO]:
    """A file that gets its name once all is in it: what is cut short looks like less happened.
    Where no regular file is there (a pipe, a device), it is written to as it is."""
    place = output.resolve()
    draft = place.with_name(f"{place.name}.{os.getpid()}{PART}")
    if output.exists() and not output.is_file():
        draft = place = output
    try:
        with draft.open("wb") as file:
            yield file
        if draft != place:
            draft.rename(place)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(output)) from error
    finally:
        if draft != place:
            with suppress(OSError):  # it was not even made
                draft.unlink(missing_ok=True)


def _chosen(
    rows: Iterator[tuple[Record, bool]],
    since_ms: int | None,
    until_ms: int | None,
    kinds: tuple[str, ...],
    of_replicas: OfReplicas,
) -> Iterator[tuple[Record, bool]]:
    for row, proved in rows:
        if until_ms is not None and row.at_ms > until_ms:
            continue
        if since_ms is not None and row.at_ms < since_ms:
            continue
        if of_replicas and not (of_replicas.take(row) if proved else of_replicas.take_any(row)):
            continue
        if not kinds or row.kind in kinds:
            yield row, proved


def _write(
    rows: Iterator[tuple[Record, bool]],
    file: BinaryIO,
    head: int,
    progress: Callable[[int, int], None],
) -> int:
    number = 0
    for number, (row, proved) in enumerate(rows, 1):
        file.write(line(row) if proved else line_of_any(row))
        if number % 1000 == 0:
            progress(row.seq, head)
    file.flush()
    return number
