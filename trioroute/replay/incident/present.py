"""An incident on a screen and as Markdown."""

from rich.console import Console
from rich.text import Text

from trioroute.replay.incident.block import Block
from trioroute.replay.incident.lines import blocks_of, head_of, title_of, words_block
from trioroute.replay.incident.told import Incident
from trioroute.replay.present import say, table


def present_incident(console: Console, told: Incident) -> None:
    say(console, title_of(told), "bold")
    say(console, told.sentence)
    for block in blocks_of(told):
        console.print()
        say(console, block.title, "bold")
        for sentence in block.said:
            say(console, sentence)
        if block.rows:
            made = table(*block.columns, right=block.right)
            for row in block.rows:
                made.add_row(*(Text(cell) for cell in row))
            console.print(made)


def markdown_of(told: Incident) -> str:
    """The same as Markdown; text of the log stays text."""
    parts = [f"# {_plain(title_of(told))}", _plain(told.sentence)]
    parts += [_plain(said) for said in head_of(told)]
    blocks = blocks_of(told)
    for block in (*blocks, *words_block(told, blocks)):
        parts.append(f"## {block.title}")
        parts += [_plain(sentence) for sentence in block.said]
        if block.rows:
            parts.append(_table(block))
    return "\n\n".join(parts) + "\n"


def _table(block: Block) -> str:
    rules = ["---:" if name in block.right else "---" for name in block.columns]
    rows = [block.columns, rules, *([_plain(cell) for cell in row] for row in block.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _plain(text: str) -> str:
    """Nothing in it is markup, a link, a column's end or a line's end."""
    made = text.replace("\\", "\\\\").replace("\r", " ").replace("\n", " ")
    for sign in "|*_`[]#~":
        made = made.replace(sign, "\\" + sign)
    return made.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
