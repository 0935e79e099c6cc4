"""``trioroute log prune``: what retention does in a running router, by hand."""

import json
from collections.abc import Callable
from pathlib import Path

import click

from eventlog.retention import Retention
from eventlog.segments import list_segments
from trioroute.archived import DIRECTORY
from trioroute.cli.failures import warn
from trioroute.cli.log.words import Bar, failures, json_option, log_argument
from trioroute.quantities import BadValue, parse_duration_ms, parse_size_bytes
from trioroute.replay.clock import now_ms
from trioroute.retain import plan_retention, retire
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

    The newest segment stays, and so does one whose successor has no usable snapshot; missing
    snapshots are made first.
    """
    if older_than is None and keep is None:
        raise click.UsageError("say what may go: --older-than AGE, --keep SIZE, or both")
    limits = Retention(
        _limit("--older-than", older_than, parse_duration_ms),
        _limit("--keep", keep, parse_size_bytes),
    )
    archived_only = (log / DIRECTORY).is_dir() and not unarchived
    with failures():
        if not dry_run:
            with Bar("folding") as bar:
                make_snapshots(log, warn=warn, progress=bar)
        decided = plan_retention(log, limits, now_ms(), archived_only=archived_only)
        if not dry_run:
            retire(log, decided)
    for segment in decided.kept_back:
        later = "; without --dry-run missing snapshots are made first" if dry_run else ""
        warn(f"{segment.file.path} stays: {decided.reason}{later}")
    names = [segment.file.path.name for segment in decided.going]
    freed = sum(segment.size_bytes for segment in decided.going)
    if as_data:
        click.echo(json.dumps({"removed": names, "bytes": freed, "dry_run": dry_run}))
    else:
        verb = "would go" if dry_run else "removed"
        newest = list_segments(log)[-1].path.name
        click.echo(
            f"{verb}: {', '.join(names) or 'nothing'} ({freed} bytes); {newest} stays: the newest "
            "segment is the one that is written on"
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
