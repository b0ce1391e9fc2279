"""The TLS options: what of a certificate is checked, and which files are used when."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from servers.redis import shared_tls_server

from lockfast import ConfigurationError, Locks, OutcomeUnknown
from lockfast.backends.network.tls import TlsOptions
from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.redis import RedisServer

PASSWORD = "open-sesame-4711"
"""The password of the encrypted key, which must not appear anywhere."""


def openssl(*arguments: str | Path) -> str:
    command = ["openssl", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def identity() -> dict[str, str]:
    """Our own certificate, for which the server asks."""
    return {"tls_cert": certificates().certificate, "tls_key": certificates().key}


@pytest.fixture
def by_another_name() -> str:
    """The URL of the server by a name that its certificate does not have."""
    return shared_tls_server().url.replace("127.0.0.1", "localhost")


@pytest.fixture
def strangers(tmp_path) -> str:
    """The certificate of an authority that did not sign the server's."""
    path = tmp_path / "strangers.pem"
    openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
        *("-days", "2", "-subj", "/CN=strangers", "-keyout", tmp_path / "strangers.key"),
        *("-out", path),
    )
    return str(path)


# -- tls_verify ------------------------------------------------------------------------


def test_by_default_authority_and_name_are_checked(by_another_name, identity, strangers, drivers):
    trusted = certificates().authority
    for url, authority in (
        (by_another_name, trusted),
        (shared_tls_server().url, strangers),
    ):
        for one in drivers(url, tls_ca=authority, **identity):
            with pytest.raises(ConfigurationError, match="certificate"):
                one.acquire("door", timeout=5)


def test_verification_of_the_authority_alone(by_another_name, identity, strangers, drivers):
    options = {"tls_verify": "ca", **identity}

    for one in drivers(by_another_name, tls_ca=certificates().authority, **options):
        one.release(one.acquire("door"))
    for one in drivers(by_another_name, tls_ca=strangers, **options):
        with pytest.raises(ConfigurationError, match="certificate"):
            one.acquire("door", timeout=5)


@pytest.mark.parametrize("word", ["none", "false", False])
def test_no_verification(by_another_name, identity, strangers, drivers, word):
    for one in drivers(by_another_name, tls_ca=strangers, tls_verify=word, **identity):
        one.release(one.acquire("door"))


# -- files -----------------------------------------------------------------------------


def test_authorities_in_a_folder(tmp_path, identity, drivers):
    """The names of the files are hashes, as `openssl rehash` makes them."""
    authority = certificates().authority
    hashed = openssl("x509", "-noout", "-hash", "-in", authority).strip()
    shutil.copy(authority, tmp_path / f"{hashed}.0")

    for one in drivers(shared_tls_server().url, tls_ca_path=str(tmp_path), **identity):
        one.release(one.acquire("door"))


@pytest.fixture
def encrypted(tmp_path) -> dict[str, str]:
    """Our own certificate with an encrypted key, and the authority."""
    key = tmp_path / "encrypted.key"
    encrypting = "-aes128", "-passout", f"pass:{PASSWORD}"
    openssl("ec", *encrypting, "-in", certificates().key, "-out", key)
    return {
        "tls_ca": certificates().authority,
        "tls_cert": certificates().certificate,
        "tls_key": str(key),
    }


def test_an_encrypted_key(encrypted, drivers):
    options = {**encrypted, "tls_key_password": PASSWORD}

    for one in drivers(shared_tls_server().url, **options):
        assert PASSWORD not in repr(one.locks)
        one.release(one.acquire("door"))


OPEN = """
import sys
from lockfast import ConfigurationError, Locks
try:
    Locks(sys.argv[1], **dict(one.split("=", 1) for one in sys.argv[2:]))
except ConfigurationError as error:
    print("refused:", error)
"""
AS_SESSION = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
"""Makes the terminal on stdin the controlling one: OpenSSL asks for passwords there."""


@pytest.mark.parametrize("given", [[], ["tls_key_password="], ["tls_key_password=wrong"]])
def test_an_encrypted_key_without_its_password_is_refused_and_nobody_is_asked(encrypted, given):
    """A service that asked its terminal for a password would hang instead of starting."""
    options = [f"{name}={value}" for name, value in encrypted.items()]
    keyboard, terminal = os.openpty()
    try:
        told = subprocess.run(
            [
                *(sys.executable, "-c", AS_SESSION, sys.executable, "-c", OPEN),
                *("rediss://localhost", *options, *given),
            ],
            stdin=terminal,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        os.set_blocking(keyboard, False)
        with pytest.raises(BlockingIOError):
            os.read(keyboard, 1000)  # the prompt, if there was one
    finally:
        os.close(keyboard)
        os.close(terminal)

    files = f"tls_cert={encrypted['tls_cert']} with tls_key={encrypted['tls_key']}"
    assert told.stdout.startswith(f"refused: rediss://localhost: {files} cannot be used")
    assert "tls_key_password" in told.stdout
    assert told.stderr == ""


def test_files_that_were_replaced_are_used_by_the_next_connection(
    tmp_path, identity, strangers, drivers
):
    """Certificates are renewed while programs run; a program need not be restarted for that."""
    authority = tmp_path / "authority.pem"
    with RedisServer(tls=certificates()) as server:
        shutil.copy(certificates().authority, authority)
        clients = drivers(server.url, tls_ca=str(authority), **identity)
        for one in clients:
            one.release(one.acquire("door"))

        _replace(authority, strangers)
        server.kill()
        server.start()
        for one in clients:
            # It may have ended unnoticed, after it had carried a first copy of the request.
            with pytest.raises((ConfigurationError, OutcomeUnknown), match="certificate"):
                one.acquire("door", timeout=5)

        _replace(authority, certificates().authority)
        for one in clients:
            one.release(one.acquire("door"))


def test_a_connection_made_while_files_are_replaced_uses_the_files_of_before(
    tmp_path, strangers, drivers
):
    """Certificate and key are replaced one after the other, and do not fit together in between."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    shutil.copy(certificates().certificate, certificate)
    shutil.copy(certificates().key, key)
    files = {"tls_cert": str(certificate), "tls_key": str(key)}
    with RedisServer(tls=certificates()) as server:
        clients = drivers(
            server.url, tls_ca=certificates().authority, request_timeout=15.0, **files
        )
        _replace(certificate, strangers)
        for one in clients:
            one.release(one.acquire("door"))

        certificate.unlink()
        server.kill()
        server.start()
        for one in clients:
            one.release(one.acquire("door"))


def test_files_that_fit_together_again_are_used(tmp_path, strangers):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    shutil.copy(certificates().certificate, certificate)
    shutil.copy(certificates().key, key)
    options = TlsOptions(cert=str(certificate), key=str(key))
    before = options.context()

    _replace(certificate, strangers)
    assert options.context() is before

    _replace(key, strangers.replace(".pem", ".key"))
    assert options.context() is not before
    assert options.context() is options.context()


def test_a_file_that_was_read_half_written_is_read_again(tmp_path, strangers):
    """Both halves may have been written within one tick of the file system's clock."""
    bundle = tmp_path / "bundle.pem"
    shutil.copy(certificates().authority, bundle)
    written_at = bundle.stat().st_mtime_ns
    options = TlsOptions(ca=str(bundle))
    before = options.context().get_ca_certs()

    with bundle.open("a") as file:
        file.write(Path(strangers).read_text())
    os.utime(bundle, ns=(written_at, written_at))

    assert len(options.context().get_ca_certs()) == len(before) + 1


def test_files_that_cannot_be_used_from_the_start_are_an_error(strangers):
    with pytest.raises(OSError, match="KEY_VALUES_MISMATCH"):
        TlsOptions(cert=strangers, key=certificates().key).context()


def _replace(file: Path, source: str) -> None:
    """Replace a file in one step, as programs that renew certificates do."""
    new = file.with_suffix(".new")
    shutil.copy(source, new)
    new.replace(file)


# -- refusals --------------------------------------------------------------------------

NEEDS_TLS = r"redis://h: tls_ca needs TLS; write rediss:// \(or add tls=true\), or leave tls_ca out"


@pytest.mark.parametrize(
    ("url", "options", "sentence"),
    [
        (
            "rediss://h?ssl_certfile=a&tls_cert=b",
            {},
            "rediss://h: ssl_certfile and tls_cert are two names of one option and have different",
        ),
        ("rediss://h", {"tls_key": "a"}, "give tls_cert too"),
        (
            "rediss://h",
            {"tls_verify": "maybe"},
            "rediss://h: tls_verify must be full, ca or none, not 'maybe'",
        ),
        ("rediss://h", {"ssl_cert_reqs": "all"}, "must be required, optional or none, not 'all'"),
        ("rediss://h", {"ssl_check_hostname": 3}, "ssl_check_hostname=3: true or false is"),
        (
            "rediss://h",
            {"tls": False},
            "rediss://h: tls=false contradicts rediss://; write redis://, or leave tls out",
        ),
        ("etcds://h?tls=0", {}, "etcds://h: tls=false contradicts etcds://; write etcd://, or"),
        (
            "rediss+sentinel://h/m?tls=no",
            {},
            r"tls=false contradicts rediss\+sentinel://; write redis\+sentinel://, or",
        ),
        ("rediss://h?tls_ca=", {}, "rediss://h: tls_ca is empty"),
        (
            "rediss://h",
            {"tls_ca": "/nowhere.pem"},
            r"rediss://h: tls_ca=/nowhere\.pem cannot be read \(No such file",
        ),
        ("redis://h", {"tls_ca": "a"}, NEEDS_TLS),
        ("redis://h?ssl_ca_certs=a", {}, NEEDS_TLS),
        ("redis://h", {"tls_cert": "a", "tls_key": "b"}, "tls_cert, tls_key need TLS; .* them out"),
        ("redis+sentinel://h/m", {"tls_verify": "ca"}, r"tls_verify.*write rediss\+sentinel://"),
        ("redis+cluster://h", {"tls_cert": "a"}, r"tls_cert.*write rediss\+cluster://"),
        ("etcd://h", {"tls_ca": "a"}, "tls_ca.*write etcds://"),
        ("memcached://h?tls=false", {"tls_ca": "a"}, "tls_ca needs TLS; write tls=true, or leave"),
        (
            "unix:///run/redis.sock",
            {"tls": True},
            "a socket of this machine has no TLS; leave tls out",
        ),
        ("unix:///run/redis.sock", {"tls_ca": "a"}, "has no TLS; leave tls_ca out"),
        (
            "unix:///run/redis.sock?tls=false",
            {"tls_verify": "none", "tls_ca": "a"},
            "has no TLS; leave tls_ca, tls_verify out",
        ),
    ],
)
def test_options_that_cannot_be_meant_are_refused(url, options, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        Locks(url, **options)


def test_a_socket_without_tls_may_be_said_to_have_none():
    """So a program may pass the same switch for every URL."""
    Locks("unix:///run/redis.sock", tls=False).close()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tls_ca": "{key}"}, "tls_ca={key} contains no certificate"),
        ({"tls_ca": "{folder}"}, "tls_ca={folder} is a directory; use tls_ca_path"),
        ({"tls_ca_path": "{key}"}, "tls_ca_path={key} is not a directory"),
        ({"tls_ca_path": "/nowhere"}, "tls_ca_path=/nowhere is not a directory"),
        (
            {"tls_cert": "/nowhere", "tls_key": "{key}"},
            "tls_cert=/nowhere cannot be read (No such file or directory)",
        ),
        (
            {"tls_cert": "{certificate}", "tls_key": "{certificate}"},
            "tls_key={certificate} contains no private key",
        ),
        (
            {"tls_cert": "{certificate}"},
            "tls_cert={certificate} contains no private key; give tls_key",
        ),
        (
            {"tls_cert": "{strangers}", "tls_key": "{key}"},
            "tls_key={key} is not the key of tls_cert={strangers}",
        ),
    ],
)
@pytest.mark.parametrize("url", ["rediss://h", "etcds://h", "memcached://h", "mysql://me@h/db"])
def test_the_file_that_cannot_be_used_is_named_with_its_option(
    url, options, sentence, tmp_path, strangers
):
    files = {
        "folder": tmp_path,
        "key": certificates().key,
        "certificate": certificates().certificate,
        "strangers": strangers,
    }

    with pytest.raises(ConfigurationError) as refused:
        Locks(url, **{name: value.format(**files) for name, value in options.items()})

    where = url.replace("me@", "***@")
    assert str(refused.value) == f"{where}: {sentence.format(**files)}"


def test_two_names_of_one_option_may_say_the_same():
    authority = certificates().authority

    Locks("rediss://h", tls_ca=authority, ssl_ca_certs=authority).close()


def test_two_switches_of_other_libraries_each_turn_one_check_off(by_another_name, drivers):
    """redis-py has a switch for the name and one for the authority; ours has three values."""
    options = {
        **certificates().client_options(),
        "ssl_check_hostname": False,
        "ssl_cert_reqs": "required",
    }
    for one in drivers(by_another_name, **options):
        one.release(one.acquire("door"))
