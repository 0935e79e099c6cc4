"""Faults on demand: what `POST /faults` may ask for, checked, and the desk that holds them."""

import difflib
from collections.abc import Callable, Mapping

import attrs
import trio


class FaultError(ValueError):
    """A fault that cannot be set; the text names the key, the value and the remedy."""


@attrs.frozen(kw_only=True)
class Faults:
    """The faults in force. Those of the first block hit one generation each (`count` = only the
    next n of them, then they are cleared); the others hold until they are replaced.

    `status` answers with an error in vLLM's shape, `retry_after` in seconds with it. `cut_after`
    resets the connection after n chunks (half of the body of a non-stream answer), `cut_fin` makes
    it a FIN without the last chunk. `error_event` is a 200 whose first event is an error with that
    code; `abort_after` ends with finish_reason abort after n tokens. `refuse` closes the listener
    and the idle connections for `refuse_s` seconds. `freeze` stops the model, not the server.
    `sleep` changes the engine_sleep_state metric only. `slow_factor` stretches every step.
    """

    status: int | None = None
    retry_after: float | None = None
    hang: bool = False
    cut_after: int | None = None
    cut_fin: bool = False
    error_event: int | None = None
    abort_after: int | None = None
    garbage: bool = False
    die_before_headers: bool = False
    count: int | None = None

    refuse: bool = False
    refuse_s: float | None = None
    metrics_delay_ms: float = 0
    metrics_status: int | None = None
    metrics_names: str = "vllm"
    freeze: bool = False
    sleep: bool = False
    slow_factor: float = 1

    def shown(self) -> dict[str, object]:
        """Only what differs from no fault at all, for JSON."""
        return {key: value for key, value in attrs.asdict(self).items() if value != _DEFAULTS[key]}


NO_FAULTS = Faults()
_DEFAULTS = attrs.asdict(NO_FAULTS)
_KEYS = tuple(_DEFAULTS)
_SPENT = {key: _DEFAULTS[key] for key in _KEYS[: _KEYS.index("count") + 1]}
_FLAGS = {key for key, value in _DEFAULTS.items() if isinstance(value, bool)}
_STATUS = {"status", "metrics_status", "error_event"}
_COUNTS = {"count", "cut_after", "abort_after"}


def parse_faults(asked: object) -> Faults:
    """Faults from the body of `POST /faults`; raises FaultError."""
    if not isinstance(asked, Mapping):
        raise FaultError('the faults must be a JSON object, such as {"status": 500, "count": 1}')
    for key, value in asked.items():
        _check(str(key), value)
    faults = Faults(**asked)
    if faults.refuse and not faults.refuse_s:
        raise FaultError(
            'refuse needs refuse_s, the seconds until the listener is back: {"refuse": true, '
            '"refuse_s": 2}; a closed listener cannot be told to open again'
        )
    if faults.cut_fin and faults.cut_after is None:
        raise FaultError('cut_fin needs cut_after: {"cut_after": 3, "cut_fin": true}')
    return faults


def _check(key: str, value: object) -> None:
    if key not in _DEFAULTS:
        near = difflib.get_close_matches(key, _DEFAULTS, n=1)
        meant = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(_DEFAULTS)}"
        raise FaultError(f"unknown fault {key!r}{meant}")
    if key in _FLAGS:
        good, wanted = isinstance(value, bool), "true or false"
    elif key == "metrics_names":
        good, wanted = value in ("vllm", "unknown"), '"vllm" or "unknown"'
    elif isinstance(value, bool) or not isinstance(value, int | float):
        good, wanted = False, "a number"
    elif key in _STATUS:
        good, wanted = isinstance(value, int) and 400 <= value <= 599, "a status from 400 to 599"
    elif key in _COUNTS:
        least = 0 if key == "cut_after" else 1
        good, wanted = isinstance(value, int) and value >= least, f"a whole number from {least}"
    elif key == "slow_factor":
        good, wanted = 0 < value <= 10_000, "a factor above 0, at most 10000"
    else:
        good, wanted = 0 <= value <= 3_600_000, "0 or more (seconds, or milliseconds for _ms)"
    if not good:
        raise FaultError(f"fault {key} = {value!r}: must be {wanted}")


@attrs.define(eq=False)
class FaultDesk:
    """Holds the faults in force; tasks wait here for a change. Also the handle in-process tests
    use: `desk.set(status=500, count=1)`, `desk.clear()`."""

    now: Faults = attrs.field(default=NO_FAULTS, init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    def set(self, **faults: object) -> Faults:
        """Replaces all the faults; same keys and errors as `POST /faults`."""
        return self.replace(parse_faults(faults))

    def clear(self) -> None:
        """No faults any more; what hangs already keeps hanging, what is frozen goes on."""
        self.replace(NO_FAULTS)

    def replace(self, faults: Faults) -> Faults:
        """Puts checked faults in force and wakes who waits for a change."""
        self.now = faults
        self._changed.set()
        self._changed = trio.Event()
        return faults

    def take(self) -> Faults:
        """The faults for one generation; counts it."""
        taken = self.now
        if taken.count is not None:
            left = _SPENT if taken.count == 1 else {"count": taken.count - 1}
            self.replace(attrs.evolve(taken, **left))
        return taken

    async def until(self, holds: Callable[[Faults], bool]) -> None:
        """Waits until the faults in force satisfy a condition; returns at once if they do."""
        while not holds(self.now):
            await self._changed.wait()
