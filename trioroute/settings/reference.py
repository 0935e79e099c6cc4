"""SETTINGS.md out of ``KNOWN_KEYS``: the page of the settings cannot tell another story than they.

``tools/reference`` writes the page; a test compares it with what this makes.
"""

from collections.abc import Iterable, Iterator

from trioroute.settings.keys import KeyInfo
from trioroute.settings.known import KNOWN_KEYS
from trioroute.settings.running import is_reloaded

INTRODUCTION = """\
# Settings

`trioroute serve --config trioroute.toml` reads one TOML file. Every key is optional but the
replicas, or a place to find them. A key that is not known is an error that names the nearest known
one.
`trioroute check trioroute.toml` tells every problem with file, key, value and remedy, and starts
nothing.

This page is made from the table the router itself reads (`tools/reference`). Do not edit it.

- **Precedence**: command line, then environment, then file, then default. Replicas of a stronger
  source replace those of a weaker one; they are not added.
- **Environment**: a key's variable is `TRIOROUTE_` and its name in capitals with `_` for each dot:
  `TRIOROUTE_SERVER_LISTEN`, `TRIOROUTE_POLICY_SLACK_SESSION`. Lists are separated by commas.
  `TRIOROUTE_CONFIG` names the file, `TRIOROUTE_REPLICAS` holds `[NAME=]URL,[NAME=]URL`. Keys of
  `[[replica]]` have no variable.
- **Durations** are seconds (`3`, `0.5`) or text (`"250ms"`, `"3s"`, `"1h30m"`). **Sizes** are
  bytes or text (`"64MiB"` is 2^20, `"64MB"` 10^6). Numbers with a fraction have at most three
  digits after the point.
- **Secrets** come from the environment only: `api_key_env` and `admin_token_env` name variables,
  whose values are never logged, shown or written into the event log. Of clients' API keys only
  SHA-256 hashes are kept: `trioroute key new NAME`.
- **Changes**: SIGHUP, or `POST /reload` on the admin port, reads the file again. It applies as a
  whole or not at all, and touches nothing in flight; what was applied is in the log, and the
  process log names it: `reload: applied (...): eject.cooldown 30s -> 1m, replica gpu3 joined`.
  Keys marked
  *restart* keep their value until the next start, and a reload names those that changed. The log
  keeps pins, streaks and cooldowns across a restart.

```toml
[server]
listen = "0.0.0.0:8080"

[policy]
slack = { session = 2 }

[[replica]]
name = "gpu1"
url = "http://10.0.0.1:8000"

[[replica]]
name = "gpu2"
url = "http://10.0.0.2:8000"
api_key_env = "GPU2_KEY"
```
"""


def reference_page() -> str:
    """The whole page, as Markdown."""
    every = list(KNOWN_KEYS.values())
    sections = dict.fromkeys(_section(info) for info in every)
    parts = [
        INTRODUCTION,
        *(_table(name, (info for info in every if _section(info) == name)) for name in sections),
    ]
    return "".join(parts)


def _section(info: KeyInfo) -> str:
    return info.key.split(".")[0]


def _table(section: str, rows: Iterable[KeyInfo]) -> str:
    title = "[[replica]]" if section == "replica" else f"[{section}]"
    return "".join(_section_lines(title, rows))


def _section_lines(title: str, rows: Iterable[KeyInfo]) -> Iterator[str]:
    yield f"\n## `{title}`\n\n| key | default | takes | meaning |\n|---|---|---|---|\n"
    for info in rows:
        doc = info.doc if is_reloaded(info.key) else f"{info.doc} *Restart.*"
        yield f"| `{info.key}` | {_default(info)} | {_cell(info.kind.name)} | {_cell(doc)} |\n"


def _default(info: KeyInfo) -> str:
    """TOML as code; the words of a key that has no default as words."""
    return info.default if info.default in _WORDS else f"`{info.default}`"


_WORDS = ("host:port", "required")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
