"""The dashboard: one page that talks to nobody but this admin port.

Its parts are the files beside this one, put together once. Style and script are inline and named
by their hashes in the Content-Security-Policy, so nothing else can run in it; names of replicas
enter as text, never as markup.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from trioroute.observe.answer import Answer

SCRIPTS = (
    *("elements", "replicas", "shares", "pace", "explained", "search", "decisions", "incidents"),
    *("wrong", "past", "follow"),
)
"""In this order: one script, so that one hash names it."""


def _file(name: str) -> str:
    return (files("trioroute.observe") / "dashboard" / name).read_text("utf-8")


def _hash(text: str) -> str:
    """The CSP source of an inline element (CSP level 3, 2.3.1)."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


@cache
def dashboard() -> Answer:
    """The page; it is the same for every router."""
    style = _file("style.css")
    script = "".join(_file(f"{name}.js") for name in SCRIPTS)
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>trioroute</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><style>{style}</style></head>
<body>{_file("page.html")}<script>{script}</script></body></html>
"""
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)};"
        " connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )
    return Answer(200, "text/html; charset=utf-8", page.encode(), policy=policy.encode())
