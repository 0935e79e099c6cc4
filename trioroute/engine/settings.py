"""What one simulated replica is told at its start."""

import attrs
from attrs.validators import ge, gt

VERSION = "0.32.0"
"""The vLLM release whose surface is simulated; answered by `GET /version`."""


def _models(_: object, field: "attrs.Attribute[tuple[str, ...]]", value: tuple[str, ...]) -> None:
    if not value or not all(value):
        raise ValueError(f"{field.name} = {value}: name at least one model, none of them empty")


@attrs.frozen(kw_only=True)
class EngineSettings:
    """Speeds, sizes and limits of one replica. Raises ValueError naming field and value.

    `max_queued` counts unfinished requests, the running ones included, as vLLM's
    `--max-num-queued-reqs` was captured to do (limit 10: 8 running and 2 waiting); 0 = no limit.
    `access_log` is a file that gets what the replica saw of each request; empty: none is written.
    `kv_tokens` is also the longest prompt plus answer (`max_model_len`).
    """

    models: tuple[str, ...] = attrs.field(default=("simulated",), validator=_models)
    host: str = "127.0.0.1"
    port: int = attrs.field(default=0, validator=ge(0))
    max_running: int = attrs.field(default=8, validator=ge(1))
    max_queued: int = attrs.field(default=0, validator=ge(0))
    prefill_tokens_per_s: float = attrs.field(default=8000.0, validator=gt(0.0))
    decode_tokens_per_s: float = attrs.field(default=60.0, validator=gt(0.0))
    cache_tokens: int = attrs.field(default=200_000, validator=ge(0))
    block_tokens: int = attrs.field(default=16, validator=ge(1))
    kv_tokens: int = attrs.field(default=100_000, validator=ge(16))
    answer_tokens: int = attrs.field(default=64, validator=ge(1))
    seed: int = 0
    access_log: str = ""

    @property
    def max_model_len(self) -> int:
        """Tokens a prompt and its answer may have together."""
        return self.kv_tokens
