"""From a log back to the state it tells: the fold before a router listens."""

import os
import secrets
from functools import partial
from pathlib import Path

import attrs

from eventlog import LogDamaged, LogReader
from eventlog.bare import Even, even_pages
from eventlog.chain import was_changed
from eventlog.errors import cannot_write
from eventlog.snapshots import BadSnapshot, Snapshots, Warn
from trioroute.events import Gap, UnreadableEvent, decode
from trioroute.policy.keys import HEX_KEY_BYTES, KEY_BYTES
from trioroute.projections import State
from trioroute.projections.freeze import CannotThaw, thaw
from trioroute.projections.rows import fold_rows
from trioroute.rare_gc import rare_gc
from trioroute.snapshot import FOLD, Progress, parse, unreadable

PAGE = 2000
KEY_FILE = "key"


@attrs.frozen
class Recovered:
    """What a log tells of a router. ``snapshot`` is the row of the snapshot that helped, 0 for
    none; ``folded`` rows came after it.

    ``lost`` rows went before the first one kept, and no snapshot of this release tells of them: the
    state is what the kept rows say, and must be restated in the log before it is gone on from.
    """

    state: State
    snapshot: int = 0
    folded: int = 0
    lost: int = 0


def _untold(_done: int, _until: int) -> None:
    pass


@rare_gc()
def recover(
    reader: LogReader,
    stream: str,
    snapshots: Snapshots | None = None,
    warn: Warn | None = None,
    progress: Progress = _untold,
) -> Recovered:
    """Fold a stream, page by page, from the newest usable snapshot on. ``progress`` is told at
    the start and after each page the last row folded and the last there is.

    Raises UnreadableEvent for a newer release or a changed row, LogDamaged.
    """
    state, snapshot = State(), 0
    found = None
    if snapshots is not None:
        found = snapshots.newest(reader, FOLD, partial(_state_of, stream), warn=warn)
    if found is not None:
        snapshot, state = found[0].seq, found[1]
    begun = state.position
    lost = 0
    following = reader.read_stream(stream, begun, 1)
    after = following[0].seq - 1 if following else reader.head().seq
    if begun == 0 and following and following[0].version > 1:
        begun = lost = state.position = following[0].version - 1
    until = reader.head().seq
    progress(after, until)
    # By seq, in the order of the file: by stream, each row is looked up in an index.
    while pages := even_pages(reader, after, PAGE):
        for page in pages:
            after += len(page.rows)
            if page.stream == stream:
                _fold(reader, state, page)
                if lost and _restates(page):
                    lost = 0
        progress(after, until)
    return Recovered(state, snapshot, state.position - begun, lost)


def _fold(reader: LogReader, state: State, page: Even) -> None:
    if page.version != state.position + 1:
        raise LogDamaged(page.stream, page.seq, f"gap before version {page.version}")
    try:
        fold_rows(state, page.rows)
    except UnreadableEvent as error:
        version = state.position + 1
        seq = page.seq + version - page.version
        changed = was_changed(reader, seq)
        raise unreadable(page.stream, version, seq, error, changed=changed) from error


def _restates(page: Even) -> bool:
    """Whether what was lost before is told again in it."""
    gaps = [decode(kind, schema, body) for kind, schema, _, body in page.rows if kind == "Gap"]
    return any(isinstance(gap, Gap) and gap.state is not None for gap in gaps)


def _state_of(stream: str, payload: bytes) -> State:
    """A router's state in a snapshot; a new one if the snapshot is older than the router."""
    frozen = parse(payload).get(stream)
    try:
        return State() if frozen is None else thaw(frozen)
    except CannotThaw as error:
        raise BadSnapshot(str(error)) from error


def log_secret(directory: Path) -> bytes:
    """The key of all digests, made once beside the log with mode 0600, whole or not at all.

    A file without a byte is one that a full disk or a crash cut short: no digest was made with it.
    Raises ValueError when the file is there but holds no key: then no session could be found.
    """
    path = directory / KEY_FILE
    text = path.read_text("ascii") if path.exists() else ""
    if not text:
        secret = secrets.token_bytes(KEY_BYTES)
        _write_key(path, secret)
        return secret
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) not in (KEY_BYTES, HEX_KEY_BYTES):
        raise ValueError(
            f"{path} holds no key of {KEY_BYTES} or {HEX_KEY_BYTES} bytes in hexadecimal; put the "
            "file of this log back. One of another length may be a newer release's: then use that "
            "one. To remove it starts with new digests: old sessions are then not found"
        )
    return secret


def _write_key(path: Path, secret: bytes) -> None:
    draft = path.with_name(f"{path.name}.draft")
    try:
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600, exist_ok=False)
        with draft.open("w", encoding="ascii") as file:
            file.write(secret.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error
