"""The demo from start to Ctrl-C."""

import signal
import sys
from pathlib import Path

import attrs
import httpx
import trio
from rich.live import Live

from trioroute.counted import plural
from trioroute.demo.places import free_addresses, free_log
from trioroute.demo.processes import (
    Started,
    accepts,
    command,
    ended,
    run_until_cancelled,
)
from trioroute.demo.show import farewell, replica_line, replica_table, welcome
from trioroute.demo.traffic import agents
from trioroute.terminal import Terminal

MODEL = "demo-model"
FIRST_ENGINE_PORT = 18101
LOOK_EVERY_S = 1.0
LINE_EVERY = 10


@attrs.frozen
class DemoOptions:
    log: Path
    replicas: int
    listen_port: int
    admin_port: int
    traffic: bool


async def run_demo(options: DemoOptions) -> None:
    """Start everything, show it, and stop it all at SIGINT or SIGTERM.

    The router ends before the engines do, so that the demo itself cuts no request. Beside another
    demo it takes a log and ports of its own.
    """
    log = free_log(options.log)
    if log != options.log:
        say(f"{options.log} is written by another router, using {log}")
        options = attrs.evolve(options, log=log)
    say(f"starting {plural(options.replicas, 'simulated replica')} and the router ...")
    async with trio.open_nursery() as engines:
        with trio.CancelScope() as asked_to_stop:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_stop_at_signal, asked_to_stop)
                replicas = await _start_engines(options, engines)
                await _with_router(options, replicas)
        engines.cancel_scope.cancel()
    say(farewell(str(options.log)))


def say(text: str) -> None:
    """Tell at once, also in a pipe."""
    print(text, flush=True)  # noqa: T201  the demo's own output


async def _stop_at_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        async for _ in received:
            sys.stderr.write("\nstopping ...\n")
            sys.stderr.flush()
            scope.cancel()


async def _start_engines(options: DemoOptions, engines: trio.Nursery) -> list[str]:
    replicas = []
    addresses = free_addresses(FIRST_ENGINE_PORT, options.replicas)
    async with trio.open_nursery() as all_up:
        for number, address in enumerate(addresses, 1):
            output = options.log / f"gpu{number}.out"
            start = command("engine", "--listen", address, "--model", MODEL)
            process: Started = await engines.start(run_until_cancelled, start, output)
            all_up.start_soon(accepts, address, process, output)
            replicas.append(f"gpu{number}=http://{address}")
    return replicas


async def _with_router(options: DemoOptions, replicas: list[str]) -> None:
    (listen,) = free_addresses(options.listen_port, 1)
    (admin,) = free_addresses(options.admin_port, 1, beside=listen)
    output = options.log / "router.out"
    start = command("serve", "--listen", listen, "--admin", admin, "--log", str(options.log))
    for replica in replicas:
        start += ["--replica", replica]
    async with trio.open_nursery() as router:
        process = await router.start(run_until_cancelled, start, output)
        for address in (listen, admin):  # both are told below; the second opens a moment later
            await accepts(address, process, output)
        for wanted, address in ((options.listen_port, listen), (options.admin_port, admin)):
            if wanted and not address.endswith(f":{wanted}"):
                say(f"port {wanted} is taken, using {address}")
        say(welcome(f"http://{listen}", f"http://{admin}", MODEL, str(options.log)))
        async with trio.open_nursery() as users:
            if options.traffic:
                users.start_soon(agents, f"http://{listen}/v1", MODEL, 1)
            users.start_soon(_show, f"http://{admin}/state")
            await ended(process)
            users.cancel_scope.cancel()
        raise RuntimeError(_how_it_ended(process, output))


def _how_it_ended(process: Started, output: Path) -> str:
    if process.returncode is not None and process.returncode < 0:
        number = -process.returncode
        return f"the router was killed (signal {number}); start again to continue the log"
    tail = output.read_text("utf-8", "replace").splitlines()[-5:]
    return "\n".join([f"the router ended with exit code {process.returncode}:", *tail])


async def _show(url: str) -> None:
    """The state again and again: a live table on a terminal, a line now and then in a pipe."""
    console = Terminal()
    async with httpx.AsyncClient(timeout=5, trust_env=False) as client:
        with Live(console=console, auto_refresh=False) as live:
            looks = 0
            while True:
                await trio.sleep(LOOK_EVERY_S)
                try:
                    state = (await client.get(url)).json()
                except httpx.HTTPError:
                    continue
                looks += 1
                if console.is_terminal:
                    live.update(replica_table(state), refresh=True)
                elif looks % LINE_EVERY == 1:
                    console.print(replica_line(state), soft_wrap=True)
