"""The simulated part of ``--what-if`` on a screen, which says that it is one."""

from rich.console import Console

from trioroute.counted import plural
from trioroute.replay.present import say, table
from trioroute.replay.rest import MEAN_MAX, Felt, Rest
from trioroute.simulate.fit import Errors, Fit
from trioroute.simulate.steps import SPEED_M

_COLUMNS = (
    ("ttft_mean_s", "TTFT mean", ".3f"),
    ("ttft_p50_s", "p50", ".3f"),
    ("ttft_p90_s", "p90", ".3f"),
    ("ttft_p99_s", "p99", ".3f"),
    ("e2e_mean_s", "whole mean", ".3f"),
    ("e2e_p99_s", "p99", ".3f"),
    ("max_share_5m", "largest share", ".3f"),
    ("spills", "spills", ".0f"),
    ("rebinds", "rebinds", ".0f"),
)


def present_rest(console: Console, rest: Rest) -> None:
    """What was simulated and how good that is, or why nothing was."""
    if rest.fit is not None:
        _fit(console, rest.fit)
    if rest.refused is not None:
        say(console, f"simulated nothing: {rest.refused}", "yellow")
        return
    say(
        console,
        f"simulated {plural(rest.requests, 'request')} from {rest.begin} on, after {rest.warm_up} "
        f"to warm up, on {plural(rest.replicas, 'replica')}: a simulation, not a proof",
        "bold",
    )
    if rest.end is not None:
        say(console, f"          up to {rest.end}")
    if rest.means_off is not None:
        first, whole = rest.means_off
        say(
            console,
            f"          as recorded, the simulated mean first byte is off by {first:+.1%}, the "
            f"mean duration by {whole:+.1%} (at most {MEAN_MAX:.0%} is let pass)",
        )
    made = table("seconds", *(title for _, title, _ in _COLUMNS), right=_TITLES)
    for name, felt in (
        ("recorded, as the log has it", rest.recorded),
        ("simulated, as recorded", rest.as_recorded),
        ("simulated, what if", rest.changed),
    ):
        if felt is not None:
            made.add_row(name, *_figures(felt))
    console.print(made)


_TITLES = tuple(title for _, title, _ in _COLUMNS)


def _figures(felt: Felt) -> list[str]:
    return [format(getattr(felt, name), form) for name, _, form in _COLUMNS]


def _fit(console: Console, fit: Fit) -> None:
    say(
        console,
        f"fit       like {fit.like}, prefill costs x{fit.prefill_scale:.2f}, steps "
        f"x{fit.decode_scale:.2f}; relative error: first byte {_errors(fit.ttft)}, duration "
        f"{_errors(fit.duration)}",
    )
    if fit.slow_m:
        slow = ", ".join(f"{name} x{many / SPEED_M:.2f}" for name, many in fit.slow_m.items())
        say(console, f"          replicas differ, times are {slow}")


def _errors(errors: Errors | None) -> str:
    if errors is None:
        return "unknown"
    return f"{errors.median:.1%} median, {errors.p90:.1%} p90 of {errors.requests}"
