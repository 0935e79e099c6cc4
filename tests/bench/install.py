"""What the bench needs and does not ship: system packages and environments of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click

from tests.bench.places import cache_dir

INSTALL_S = 900.0


class NotAvailableError(Exception):
    """A target cannot run here; the text says why and what to do."""


def system_program(name: str) -> Path:
    """A program of the system's packages, installed if that is possible. Raises
    ``NotAvailableError``."""
    found = which(name)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _apt_install(name)
        found = which(name)
    if found is None:
        raise NotAvailableError(f"{name} is not installed (Debian, Ubuntu: apt install {name})")
    return found


def which(name: str) -> Path | None:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return Path(found) if found else None


def _apt_install(name: str) -> None:
    """Installs the package. Under runlevel 1 Debian's scripts do not start its service."""
    click.echo(
        f"installing {name} from the system's packages (once; its service is not started)", err=True
    )
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", name]):
        done = _run(["apt-get", *words], env)
        if done.returncode and words[0] == "install":
            raise NotAvailableError(f"apt-get install {name} failed: {_last(done)}")


def own_environment(name: str, package: str, program: str) -> Path:
    """``program`` out of an environment that holds ``package`` only. Raises
    ``NotAvailableError``."""
    home = cache_dir() / name
    found, stamp = home / "bin" / program, home / ".installed"
    if found.exists() and stamp.exists() and stamp.read_text() == package:
        return found
    click.echo(f"installing {package} into {home} (once)", err=True)
    pip = [
        str(home / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
    ]
    for command in ([sys.executable, "-m", "venv", str(home)], [*pip, package]):
        done = _run(command, dict(os.environ))
        if done.returncode:
            raise NotAvailableError(f"{package} cannot be installed: {_last(done)}")
    if not found.exists():
        raise NotAvailableError(f"{package} has no program {program} (any more)")
    stamp.write_text(package)
    return found


def _run(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=env, timeout=INSTALL_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _last(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
