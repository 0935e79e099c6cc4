"""Certificates that signed themselves, made by the system's openssl, for tests over real TLS."""

import ssl
import subprocess
from pathlib import Path

import attrs


@attrs.frozen
class Pair:
    """Paths of a certificate and its key, as the settings take them."""

    cert: str
    key: str

    def client(self) -> ssl.SSLContext:
        """Trusts this certificate and no other."""
        return ssl.create_default_context(cafile=self.cert)


def self_signed(folder: Path, name: str = "one") -> Pair:
    """A new certificate for localhost and 127.0.0.1, good for two days."""
    pair = Pair(str(folder / f"{name}-cert.pem"), str(folder / f"{name}-key.pem"))
    run = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", pair.key, "-out", pair.cert]
    subprocess.run([*run.split(), *subject, *files], check=True, capture_output=True)
    return pair
