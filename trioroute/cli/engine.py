"""`trioroute engine`: one simulated vLLM replica."""

import signal
from typing import Any

import click
import trio

from trioroute.engine import EngineHandle, EngineSettings, serve_engine

_EXAMPLE = """
\b
Example, a slow replica with two slots that answers a request and then fails once:
  trioroute engine --listen 127.0.0.1:8001 --model demo --max-running 2 --decode-tokens-per-s 20
  curl -s http://127.0.0.1:8001/v1/chat/completions -H 'content-type: application/json' \\
    -d '{"model":"demo","messages":[{"role":"user","content":"hello"}]}'
  curl -s http://127.0.0.1:8001/faults -d '{"status":500,"count":1}'
"""

_DEFAULTS = EngineSettings()


def parse_listen(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT or [IPV6]:PORT; raises click.BadParameter."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8001 (port 0: any)")
    return host.removeprefix("[").removesuffix("]"), int(port)


@click.command("engine", epilog=_EXAMPLE)
@click.option("--listen", default="127.0.0.1:8001", show_default=True, metavar="HOST:PORT")
@click.option(
    "--model",
    "models",
    multiple=True,
    default=_DEFAULTS.models,
    show_default=True,
    metavar="NAME",
    help="Served name; repeat for aliases.",
)
@click.option(
    "--max-running",
    default=_DEFAULTS.max_running,
    show_default=True,
    help="Sequences in one batch; the rest wait.",
)
@click.option(
    "--max-queued",
    default=_DEFAULTS.max_queued,
    show_default=True,
    help="Unfinished requests, the running ones included, above which new ones get a 503 "
    "(vLLM's --max-num-queued-reqs); 0 = no limit.",
)
@click.option(
    "--prefill-tokens-per-s",
    default=_DEFAULTS.prefill_tokens_per_s,
    show_default=True,
    help="Prompt tokens the whole replica computes.",
)
@click.option(
    "--decode-tokens-per-s",
    default=_DEFAULTS.decode_tokens_per_s,
    show_default=True,
    help="Answer tokens of each stream.",
)
@click.option(
    "--cache-tokens",
    default=_DEFAULTS.cache_tokens,
    show_default=True,
    help="Prefix cache; 0 = none.",
)
@click.option(
    "--block-tokens",
    default=_DEFAULTS.block_tokens,
    show_default=True,
    help="Tokens per cache and KV block.",
)
@click.option(
    "--kv-tokens",
    default=_DEFAULTS.kv_tokens,
    show_default=True,
    help="KV memory of the batch, also the longest prompt and answer.",
)
@click.option(
    "--answer-tokens",
    default=_DEFAULTS.answer_tokens,
    show_default=True,
    help="Length of an answer without max_tokens.",
)
@click.option("--seed", default=_DEFAULTS.seed, show_default=True, help="Of the answers' words.")
@click.option(
    "--access-log",
    default="",
    metavar="FILE",
    help="Append what it saw of each request: one JSON line when it comes, one when it ends.",
)
def engine_command(
    listen: str,
    **options: Any,  # noqa: ANN401 - click passes them by name, EngineSettings checks them
) -> None:
    """One simulated vLLM replica over real HTTP: API, /metrics with vLLM's names, POST /faults.

    Prints the address it listens on, then serves until SIGTERM or SIGINT. Port 0 takes a free one.
    """
    host, port = parse_listen(listen)
    try:
        settings = EngineSettings(host=host, port=port, **options)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    failed = trio.run(_serve_until_signal, settings)
    if failed is not None:
        if failed.filename is not None:
            raise click.UsageError(f"cannot write --access-log {options['access_log']}: {failed}")
        raise click.UsageError(f"cannot listen on {listen}: {failed}; choose another --listen")


async def _serve_until_signal(settings: EngineSettings) -> OSError | None:
    """Serves; returns what kept it from listening, since a nursery would wrap a raised error."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            try:
                handle: EngineHandle = await nursery.start(serve_engine, settings)
            except OSError as error:
                return error
            click.echo(f"listening on {handle.url}")
            async for _ in signals:
                nursery.cancel_scope.cancel()
                break
    return None
