"""TLS files: a certificate chain and its private key, or which of the two is bad and why."""

import hashlib
import re
import ssl
from pathlib import Path

import attrs

FILE_BYTES_MAX = 1 << 20
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_CERTIFICATE_BLOCK = re.compile(
    r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL
)
_PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z ]*)PRIVATE KEY-----")
_CIPHERS = "ECDHE+AESGCM"
"""Of TLS 1.2: what RFC 9113 section 9.2.2 leaves for HTTP/2 and every client of today has."""

_PROTOCOLS = ["h2", "http/1.1"]


@attrs.frozen
class BadCertificate(Exception):
    """``key`` is the setting whose file is bad: ``server.tls_cert`` or ``server.tls_key``."""

    key: str
    message: str
    remedy: str


@attrs.frozen(eq=False)
class ServerCertificate:
    """``context`` speaks TLS 1.2 and 1.3, HTTP/1.1 and HTTP/2; ``chain`` is what the file held."""

    context: ssl.SSLContext = attrs.field(repr=False)
    chain: bytes = attrs.field(repr=False)

    @property
    def fingerprint(self) -> str:
        """Of the server's own certificate, as ``openssl x509 -noout -fingerprint -sha256``."""
        first = _CERTIFICATE_BLOCK.search(self.chain.decode("ascii", "replace"))
        der = ssl.PEM_cert_to_DER_cert(first[0]) if first else b""
        return hashlib.sha256(der).hexdigest()


def read_certificate(cert: str, key: str) -> ServerCertificate:
    """The certificate in two PEM files; blocks.

    Raises BadCertificate. Never asks a terminal for a passphrase.
    """
    chain = _read("server.tls_cert", cert)
    if _CERTIFICATE not in chain:
        raise BadCertificate(
            "server.tls_cert",
            f"holds no certificate in PEM form ({_CERTIFICATE.decode()})",
            "name the file of the certificate chain, the server's own first",
        )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(_PROTOCOLS)
    try:
        # Into a context of no other use: only it tells a broken certificate from a broken key.
        ssl.create_default_context(cadata=chain.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        why = f"a certificate in it is damaged ({_reason(error)})"
        raise BadCertificate("server.tls_cert", why, "write the whole file again") from None
    _check_key(_read("server.tls_key", key))
    try:
        context.load_cert_chain(cert, key, password="")
    except ssl.SSLError as error:
        raise _unfit(error) from None
    except OSError as error:  # gone since it was read
        raise BadCertificate("server.tls_cert", _unreadable(error), "reload again") from None
    return ServerCertificate(context, chain)


def _read(setting: str, path: str) -> bytes:
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadCertificate(setting, _unreadable(error), "name a readable file") from None
    if len(data) > FILE_BYTES_MAX:
        raise BadCertificate(setting, "is larger than 1 MiB", "name a PEM file")
    return data


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {error.strerror or type(error).__name__}"


def _check_key(data: bytes) -> None:
    found = _PRIVATE_KEY.search(data)
    if found is None:
        raise BadCertificate(
            "server.tls_key",
            "holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)",
            "name the file of the key that belongs to server.tls_cert",
        )
    if b"ENCRYPTED" in found[1] or b"Proc-Type: 4,ENCRYPTED" in data:
        raise BadCertificate(
            "server.tls_key",
            "is encrypted, and nobody is there to type its passphrase",
            "write it without one (openssl pkey -in KEY -out PLAIN) and guard it by its mode",
        )


def _unfit(error: ssl.SSLError) -> BadCertificate:
    if error.reason == "KEY_VALUES_MISMATCH":
        return BadCertificate(
            "server.tls_key",
            "does not belong to the first certificate in server.tls_cert",
            "write both files, then reload; the server's own certificate comes first in its file",
        )
    if error.reason in ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"):
        weak = f"is too weak for this system's OpenSSL ({error.reason})"
        return BadCertificate("server.tls_cert", weak, "use RSA of 2048 bits or more, or EC")
    why = f"is damaged, or of a kind that this system's OpenSSL does not know ({_reason(error)})"
    return BadCertificate("server.tls_key", why, "write the whole file again")


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or type(error).__name__
