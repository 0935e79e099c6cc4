"""``[discovery.*]``: what switches a source on, and what keeps it from being used."""

from pathlib import Path

import pytest

from tests.settings.writing import loaded, problem
from trioroute.settings import (
    DnsDiscovery,
    FileDiscovery,
    GpuStackDiscovery,
    KubernetesDiscovery,
    Settings,
    load,
)

STACK = '[discovery.gpustack]\nurl = "http://stack:80/"\n'
PODS = '[discovery.kubernetes]\nselector = "app=vllm"\n'


def test_each_section_is_a_source(tmp_path: Path) -> None:
    names = '[discovery.dns]\nname = "vllm.local"\nport = 80\n'
    found = loaded(tmp_path, f'[discovery.file]\npath = "l.json"\n{names}{STACK}{PODS}port = 8000')
    assert found.discovery == (
        FileDiscovery("l.json"),
        DnsDiscovery("vllm.local", 80),
        GpuStackDiscovery("http://stack:80"),
        KubernetesDiscovery("app=vllm", port="8000"),
    )
    assert not found.no_replica


def test_without_a_section_there_is_none(tmp_path: Path) -> None:
    found: Settings = loaded(tmp_path, "[discovery.file]\npath = ''\n[discovery.kubernetes]")
    assert found.discovery == ()
    assert found.no_replica


def test_a_variable_sets_a_key() -> None:
    environ = {"TRIOROUTE_DISCOVERY_FILE_PATH": "/l.json"}
    assert load(None, environ=environ).discovery == (FileDiscovery("/l.json"),)


@pytest.mark.parametrize(
    "lines, key, why",
    [
        ('[discovery.gpustack]\nmodel = "m"', "discovery.gpustack.model", "nothing is looked for"),
        (f'{STACK}token_env = "NOT_SET"', "discovery.gpustack.token_env", "is not set"),
        ('[discovery.gpustack]\nurl = "stack"', "discovery.gpustack.url", "does not start with"),
        ("[discovery.dns]\nport = 80", "discovery.dns.port", "nothing is looked for"),
        ('[discovery.dns]\nname = "a b"', "discovery.dns.name", "right form"),
        ("[discovery.kubernetes]\nport = 80", "discovery.kubernetes.port", "nothing is looked for"),
        (f"{PODS}port = 70000", "discovery.kubernetes.port", "is no port"),
        (f"{PODS}port = true", "discovery.kubernetes.port", "is no port"),
        (f'{PODS}port = "Two words"', "discovery.kubernetes.port", "is no port"),
        (f'{PODS}namespace = "a/b"', "discovery.kubernetes.namespace", "right form"),
    ],
)
def test_what_cannot_be_used_says_why(tmp_path: Path, lines: str, key: str, why: str) -> None:
    found = problem(tmp_path, lines)
    assert found.key == key
    assert why in found.message
