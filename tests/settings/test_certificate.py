"""Which TLS files are good, and of bad ones: which of the two, why, and what to do."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.certificates import Pair, self_signed
from trioroute.settings import BadCertificate, read_certificate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def pair(folder: Path) -> Pair:
    return self_signed(folder)


def bad(cert: str | Path, key: str | Path) -> tuple[str, str]:
    with pytest.raises(BadCertificate) as caught:
        read_certificate(str(cert), str(key))
    assert caught.value.remedy
    return caught.value.key, caught.value.message


def test_a_good_pair_speaks_both_protocols_and_names_its_certificate(pair: Pair) -> None:
    read = read_certificate(pair.cert, pair.key)
    shown = subprocess.run(
        ["openssl", "x509", "-in", pair.cert, "-noout", "-fingerprint", "-sha256"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert read.fingerprint == re.sub("[^0-9a-f]", "", shown.strip().rpartition("=")[2].lower())
    assert "PRIVATE" not in repr(read)
    assert "BEGIN" not in repr(read)


def test_each_bad_file_is_named_with_its_reason(pair: Pair, folder: Path, tmp_path: Path) -> None:
    cert = Path(pair.cert).read_text()
    key = Path(pair.key).read_text()
    empty, damaged, half = tmp_path / "empty", tmp_path / "damaged", tmp_path / "half"
    empty.touch()
    lines = cert.splitlines()
    damaged.write_text("\n".join([*lines[:3], *lines[4:]]))
    half.write_text(key[:60] + "\n-----END PRIVATE KEY-----\n")
    other = self_signed(folder, "other")
    large = tmp_path / "large"
    large.write_bytes(b"#" * ((1 << 20) + 1))
    assert bad(tmp_path / "no", pair.key) == (
        "server.tls_cert",
        "cannot be read: No such file or directory",
    )
    assert bad(pair.cert, tmp_path / "no")[0] == "server.tls_key"
    assert bad(tmp_path, pair.key) == ("server.tls_cert", "cannot be read: Is a directory")
    assert bad(large, pair.key) == ("server.tls_cert", "is larger than 1 MiB")
    for path, message in (
        (empty, "holds no certificate in PEM form"),
        (Path(pair.key), "holds no certificate in PEM form"),
        (damaged, "a certificate in it is damaged"),
    ):
        where, why = bad(path, pair.key)
        assert (where, why.startswith(message)) == ("server.tls_cert", True), why
    for path, message in (
        (empty, "holds no private key in PEM form"),
        (Path(pair.cert), "holds no private key in PEM form"),
        (half, "is damaged, or of a kind"),
        (Path(other.key), "does not belong to the first certificate"),
    ):
        where, why = bad(pair.cert, path)
        assert (where, why.startswith(message)) == ("server.tls_key", True), why


@pytest.mark.parametrize("traditional", [False, True])
def test_an_encrypted_key_is_refused_and_no_terminal_is_asked(
    pair: Pair, tmp_path: Path, traditional: bool
) -> None:
    locked = tmp_path / "locked.pem"
    tool = "ec" if traditional else "pkey"
    run = f"openssl {tool} -in {pair.key} -out {locked} -aes128 -passout pass:secret"
    subprocess.run(run.split(), check=True, capture_output=True)
    assert bad(pair.cert, locked) == (
        "server.tls_key",
        "is encrypted, and nobody is there to type its passphrase",
    )


def test_a_weak_key_is_called_weak(tmp_path: Path) -> None:
    cert, key = tmp_path / "c", tmp_path / "k"
    run = f"openssl req -x509 -newkey rsa:1024 -nodes -subj /CN=x -keyout {key} -out {cert}"
    subprocess.run(run.split(), check=True, capture_output=True)
    where, why = bad(cert, key)
    assert where == "server.tls_cert"
    assert "too weak" in why
