"""From a log back to the state it tells: the fold before a router listens."""

import secrets
from pathlib import Path

from eventlog import LogDamaged, LogReader
from trioroute.events import decode
from trioroute.projections import State, apply

PAGE = 2000
KEY_FILE = "key"
KEY_BYTES = 32


def recover(reader: LogReader, stream: str) -> State:
    """Fold a whole stream, page by page. Raises UnreadableEvent for a newer release, LogDamaged."""
    state = State()
    after = 0
    while True:
        page = reader.read_stream(stream, after, PAGE)
        for record in page:
            if record.version != state.position + 1:
                raise LogDamaged(stream, record.seq, f"gap before version {record.version}")
            event = decode(record.kind, record.schema, record.body)
            apply(state, record.version, record.at_ms, event)
        if len(page) < PAGE:
            return state
        after = page[-1].version


def log_secret(directory: Path) -> bytes:
    """The key of all digests, made once beside the log with mode 0600.

    Raises ValueError when the file is there but holds no key: then no session could be found.
    """
    path = directory / KEY_FILE
    try:
        text = path.read_text("ascii")
    except FileNotFoundError:
        secret = secrets.token_bytes(KEY_BYTES)
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(secret.hex() + "\n", "ascii")
        return secret
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        raise ValueError(
            f"{path} holds no key of {KEY_BYTES} bytes in hexadecimal; put the file of this log "
            "back, or remove it to start with new digests (old sessions are then not found)"
        )
    return secret
