"""``trioroute log prune``: what retention does in a running router, by hand."""

import json
from collections.abc import Callable
from pathlib import Path

import click

from eventlog.retention import Retention
from eventlog.segments import list_segments
from eventlog.word_index import DIRECTORY as INDEX
from trioroute.archived import DIRECTORY
from trioroute.cli.failures import fail, warn
from trioroute.cli.log.words import CANNOT, Bar, failures, json_option, log_argument
from trioroute.counted import plural
from trioroute.quantities import BadValue, parse_duration_ms, parse_size_bytes
from trioroute.replay.clock import now_ms
from trioroute.retain import Pruned, plan_retention, prune
from trioroute.snapshot import make_snapshots

EPILOG = """\b
Examples:
  trioroute log prune trioroute-log --older-than 14d --dry-run
  trioroute log prune trioroute-log --keep 20GiB
"""


@click.command("prune", epilog=EPILOG)
@log_argument
@click.option(
    "--older-than", metavar="AGE", help="Segments whose last event is older, such as 14d."
)
@click.option("--keep", metavar="SIZE", help="The oldest ones beyond this size, such as 20GiB.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--unarchived", is_flag=True, help="Also what log.archive has not taken yet.")
@json_option
def prune_command(
    log: Path,
    older_than: str | None,
    keep: str | None,
    dry_run: bool,
    unarchived: bool,
    as_data: bool,
) -> None:
    """Unlink whole closed segments of LOG, oldest first, by the rules of a running router.

    The newest segment stays, and so does one whose successor has no usable snapshot. What may go
    goes first; then missing snapshots are made, and what may go with them.
    """
    if older_than is None and keep is None:
        raise click.UsageError("say what may go: --older-than AGE, --keep SIZE, or both")
    limits = Retention(
        _limit("--older-than", older_than, parse_duration_ms),
        _limit("--keep", keep, parse_size_bytes),
    )
    archived_only = (log / DIRECTORY).is_dir() and not unarchived
    with failures():
        if dry_run:
            decided = plan_retention(log, limits, now_ms(), archived_only=archived_only)
            done = Pruned(decided.going, decided)
        else:
            with Bar("folding") as bar:
                done = prune(
                    log,
                    limits,
                    now_ms(),
                    archived_only=archived_only,
                    make=lambda: make_snapshots(log, warn=warn, progress=bar),
                )
        _tell(log, done, dry_run=dry_run, as_data=as_data)


def _tell(log: Path, done: Pruned, *, dry_run: bool, as_data: bool) -> None:
    for segment in done.left.kept_back:
        later = "; without --dry-run missing snapshots are made first" if dry_run else ""
        warn(f"{segment.file.path} stays: {done.left.reason}{later}")
    names = [segment.file.path.name for segment in done.gone]
    freed = sum(segment.size_bytes for segment in done.gone)
    if as_data:
        click.echo(json.dumps({"removed": names, "bytes": freed, "dry_run": dry_run}))
    else:
        verb = "would go" if dry_run else "removed"
        newest = list_segments(log)[-1].path.name
        click.echo(
            f"{verb}: {', '.join(names) or 'nothing'} ({plural(freed, 'byte')}); {newest} stays: "
            "the newest segment is the one that is written on"
        )
    if done.no_room is not None:
        fail(
            f"{done.no_room.filename or log}: the snapshot that tells of what goes is made first, "
            f"and there is no room for it ({done.no_room.strerror}): free some on this disk and "
            f"run this again; {log / INDEX} may be deleted, a running router makes it anew",
            CANNOT,
        )


def _limit(option: str, told: str | None, parse: Callable[[object], int]) -> int:
    """0 for none. Raises BadParameter for what cannot be read, and for a limit that is none."""
    if told is None:
        return 0
    try:
        limit = parse(told)
    except BadValue as error:
        raise click.BadParameter(f"{told!r} {error}", param_hint=option) from None
    if not limit:
        raise click.BadParameter(f"{told!r} is no limit; leave it out", param_hint=option)
    return limit
