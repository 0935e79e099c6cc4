"""The proxies that are compared, each as its own documentation would have it run in one process."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs

from tests.bench.install import own_environment, system_program
from tests.bench.upstream import MODEL

VLLM_ROUTER = "vllm-router==0.1.17"
SGLANG_ROUTER = "sglang-router==0.3.2"
LITELLM = "litellm[proxy]==1.108.7"


@attrs.frozen
class Place:
    """Where a target shall run: its ports, its own directory, and the replicas behind it."""

    port: int
    admin_port: int
    directory: Path
    upstreams: Sequence[int]

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.upstreams]


@attrs.frozen
class Launch:
    """A command, its environment, and the files it reads, by name, in the target's directory."""

    command: Sequence[str | Path]
    files: Mapping[str, str] = attrs.field(factory=dict)
    env: Mapping[str, str] = attrs.field(factory=dict)


def _no_program() -> Path:
    return Path(sys.executable)


@attrs.frozen
class Target:
    """``find`` gives the program, installed if need be, or raises ``NotAvailableError``.
    ``same_bytes``: bodies arrive as the upstream sent them, so their length is checked.
    ``patience``: how many times longer it is measured, for one that answers a few in a second."""

    name: str
    launch: Callable[[Path, Place], Launch] | None
    find: Callable[[], Path] = _no_program
    same_bytes: bool = True
    start_s: float = 20.0
    patience: int = 1


def nginx(program: Path, place: Place) -> Launch:
    servers = "".join(f" server 127.0.0.1:{port};" for port in place.upstreams)
    temporary = "".join(
        f"  {kind}_temp_path {place.directory}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = f"""\
daemon off;
pid {place.directory}/pid;
error_log stderr warn;
worker_processes 1;
worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_max_body_size 100m;
  keepalive_requests 1000000000;
{temporary}\
  upstream replicas {{ least_conn;{servers} keepalive 1024; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{place.port} backlog=4096;
    location / {{
      proxy_pass http://replicas;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_read_timeout 600s;
    }}
  }}
}}
"""
    config = place.directory / "nginx.conf"
    return Launch([program, "-c", config, "-p", place.directory], {"nginx.conf": text})


def haproxy(program: Path, place: Place) -> Launch:
    servers = "".join(
        f"  server replica{number} 127.0.0.1:{port} check\n"
        for number, port in enumerate(place.upstreams)
    )
    text = f"""\
global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout connect 3s
  timeout client 600s
  timeout server 600s
  option http-no-delay
  http-reuse always
frontend api
  bind 127.0.0.1:{place.port} backlog 4096
  default_backend replicas
backend replicas
  balance leastconn
  option httpchk GET /health
{servers}"""
    return Launch([program, "-db", "-f", place.directory / "haproxy.cfg"], {"haproxy.cfg": text})


def vllm_router(program: Path, place: Place) -> Launch:
    return Launch([program, *_rust_options(place), "--log-level", "warning"])


def sglang_router(program: Path, place: Place) -> Launch:
    return Launch([program, "launch", *_rust_options(place), "--log-level", "warn"])


def _rust_options(place: Place) -> list[str]:
    address = ["--host", "127.0.0.1", "--port", str(place.port), "--worker-urls", *place.urls]
    metrics = ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(place.admin_port)]
    return [*address, "--policy", "round_robin", *metrics, "--max-concurrent-requests", "8192"]


def litellm(program: Path, place: Place) -> Launch:
    models = "".join(
        f"  - model_name: {MODEL}\n    litellm_params:\n      model: hosted_vllm/{MODEL}\n"
        f"      api_base: {url}/v1\n      api_key: none\n"
        for url in place.urls
    )
    settings = "router_settings:\n  num_retries: 0\nlitellm_settings:\n  telemetry: false\n"
    text = f"model_list:\n{models}{settings}"
    options = ["--host", "127.0.0.1", "--port", str(place.port), "--num_workers", "1"]
    env = {
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "DISABLE_ADMIN_UI": "True",
    }
    config = place.directory / "litellm.yaml"
    return Launch([program, "--config", config, *options], {"litellm.yaml": text}, env)


def httpx_proxy(program: Path, place: Place) -> Launch:
    options = ["--worker-class", "trio", "--backlog", "4096", "--bind", f"127.0.0.1:{place.port}"]
    root = Path(__file__).resolve().parents[2]
    env = {"BENCH_UPSTREAMS": " ".join(place.urls), "PYTHONPATH": str(root)}
    return Launch([program, "-m", "hypercorn", *options, "tests.bench.asgi_proxy:app"], {}, env)


def trioroute(program: Path, place: Place) -> Launch:
    """All defaults: decisions, metrics, and the full event log with ``sync = "full"``."""
    replicas = "".join(
        f'\n[[replica]]\nname = "replica{number}"\nurl = "{url}"\n'
        for number, url in enumerate(place.urls)
    )
    text = f"""\
[server]
listen = "127.0.0.1:{place.port}"
admin = "127.0.0.1:{place.admin_port}"

[log]
path = "{place.directory}/log"
sync = "full"
{replicas}"""
    config = place.directory / "trioroute.toml"
    return Launch(
        [program, "-m", "trioroute", "serve", "--config", config], {"trioroute.toml": text}
    )


TARGETS = {
    target.name: target
    for target in (
        Target("direct", None),
        Target("nginx", nginx, lambda: system_program("nginx")),
        Target("haproxy", haproxy, lambda: system_program("haproxy")),
        Target(
            "vllm-router",
            vllm_router,
            lambda: own_environment("vllm-router", VLLM_ROUTER, "vllm-router"),
        ),
        Target(
            "sglang-router",
            sglang_router,
            lambda: own_environment("sglang-router", SGLANG_ROUTER, "smg"),
        ),
        Target(
            "litellm",
            litellm,
            lambda: own_environment("litellm", LITELLM, "litellm"),
            same_bytes=False,
            start_s=120.0,
            patience=4,
        ),
        Target("hypercorn+httpx", httpx_proxy),
        Target("trioroute", trioroute),
    )
}
