"""One simulated vLLM replica over real HTTP: for demos, tests and users' own load tests.

It behaves as vLLM 0.32.0 was captured to behave: paths, bodies, SSE events, errors, metric names,
queueing and batching times; and it fails on demand (`POST /faults`). No GPU and no model: answers
are deterministic words, tokens are four bytes of text each; a tool that `tool_choice` demands is
called with the least arguments that fit its schema.

May import: trio, httptools, orjson, attrs, prometheus_client. Never trioroute.proxy: the router
and the engine it is tested against must not share an HTTP implementation.
"""

from trioroute.engine.faults import FaultDesk, FaultError, Faults
from trioroute.engine.serve import EngineHandle, serve_engine
from trioroute.engine.settings import EngineSettings

__all__ = ["EngineHandle", "EngineSettings", "FaultDesk", "FaultError", "Faults", "serve_engine"]
