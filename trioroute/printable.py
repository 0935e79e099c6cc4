"""Text from elsewhere on a terminal: a replica's names and errors must not steer it."""

UNSHOWN = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """``text`` with a sign in place of each character that is none to look at: escapes and other
    controls, U+2028, marks that turn the direction of writing. Line feeds stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else UNSHOWN for c in text)
