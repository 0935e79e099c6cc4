"""The weight of a request, in integers (RULES 3)."""

from trioroute.projections import State


def weight_m(state: State, model: str, prompt_bytes: int) -> int:
    """Estimated tokens over ``wlc.unit_tokens``, in thousandths, at least 1.

    A 100K-token prompt weighs a hundred times a 1K one. The bytes a token takes are calibrated per
    model from what replicas report as ``usage.prompt_tokens``.
    """
    configured = state.settings.wlc
    bytes_per_token_m = state.load.bytes_per_token_m(model, configured.bytes_per_token_m)
    tokens = prompt_bytes * 1000 // bytes_per_token_m
    return max(1, tokens * 1000 // configured.unit_tokens)
