"""The sums of ``least-work`` in words (RULES 9): only what the choice itself was made of."""

from trioroute.policy.select import Choice, Weighed


def won(choice: Choice) -> Weighed:
    """What the chosen replica had to do."""
    return next(one for one in choice.weighed if one.name == choice.replica)


def count(thousandths: int) -> str:
    """``4000`` is "4", ``1250`` is "1.25": thousandths as people read them, without a float."""
    whole, rest = divmod(thousandths, 1000)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)


def tokens(number: int) -> str:
    """``12345`` is "12,345"."""
    return f"{number:,}"


def why_more(one: Weighed, least: Weighed) -> str:
    """Why ``one`` was not taken."""
    if one.total == least.total:
        return f"the same work, {tokens(one.total)}: more present or not its turn"
    return f"work {tokens(one.total)} against {tokens(least.total)}"


def because(choice: Choice) -> str:
    """Why the winner won."""
    least = won(choice)
    others = [one for one in choice.weighed if one is not least]
    noun = "token" if least.total == 1 else "tokens"
    text = f"it had the least work, {tokens(least.total)} {noun} ({parts(least)})"
    if choice.reason == "affinity:prefix":
        text += ", and holds the most of its prompt"
    if not others:
        return f"{text}; it was the only candidate"
    after = min(others, key=lambda one: one.total)
    return f"{text}; the next, {after.name}, has {tokens(after.total)} ({parts(after)})"


def parts(one: Weighed) -> str:
    """The sum: what is to compute, what that costs those there, what comes before and after."""
    said = [f"{tokens(one.uncached)} uncached"]
    if one.damage_m != 1000:
        whole, rest = divmod(one.damage_m, 1000)
        said[0] += f" x {whole}.{rest // 10:02}"
    said.append(f"{tokens(one.promised)} promised")
    said.append(f"{one.present} in flight")
    if one.conversations:
        said.append(f"{tokens(one.expected)} expected of {one.conversations} more")
    return ", ".join(said)
