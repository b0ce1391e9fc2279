"""TLS options of all stores that speak over our own sockets, and the context made from them.

Every store accepts the same names, `tls`, `tls_ca`, `tls_ca_path`, `tls_cert`, `tls_key`,
`tls_key_password` and `tls_verify`. The names of other libraries are understood as well.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockfast.core.server_options import SERVER_ALIASES, TLS_OPTIONS
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lockfast.core.server_options import Verification


@dataclass(frozen=True)
class TlsOptions:
    """How to make sure of a server, and how to identify ourselves; the files are read on use."""

    ca: str | None = None
    """The file with the certificates of the authorities that we trust; None: the system's."""
    ca_path: str | None = None
    ca_data: str | bytes | None = field(default=None, repr=False)
    cert: str | None = None
    """The file with our own certificate, for servers that ask for one."""
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: Verification = "full"
    """`ca`: any name in the certificate is accepted; `none`: any certificate is accepted."""
    least_version: int | None = None
    ciphers: str | None = None
    protocols: tuple[str, ...] = ()
    """The protocols that we offer in the TLS handshake (ALPN)."""
    _made: dict[str, tuple[object, ssl.SSLContext]] = field(
        default_factory=dict, repr=False, compare=False, init=False
    )

    def context(self) -> ssl.SSLContext:
        """Return the context for a connection; OSError or ValueError if a file cannot be used.

        The files are read again once they have changed, because certificates are replaced while
        programs run. Until the new files can be used, the context is the one made before.
        """
        last = self._made.get("last")
        try:
            files = [one for one in (self.ca, self.ca_path, self.cert, self.key) if one]
            # The size too: a file that was read half written may be complete within the same tick
            # of the file system's clock.
            read = [
                (found.st_mtime_ns, found.st_ino, found.st_size) for found in map(os.stat, files)
            ]
            if last is None or last[0] != read:
                self._made["last"] = last = read, self._new_context()
        except (OSError, ValueError):
            # Files are replaced one after the other, so for a moment a certificate has another key,
            # or a file is missing.
            if last is None:
                raise
        return last[1]

    def _new_context(self) -> ssl.SSLContext:
        context = self._trusting_context()
        if self.verify != "full":
            context.check_hostname = False
        if self.verify == "none":
            context.verify_mode = ssl.CERT_NONE
        if self.cert:
            # Without a function, a key that needs a password would ask for it at the terminal.
            password = self.key_password or ""
            context.load_cert_chain(self.cert, self.key, lambda: password)
        if self.least_version is not None:
            context.minimum_version = ssl.TLSVersion(self.least_version)
        if self.ciphers:
            context.set_ciphers(self.ciphers)
        if self.protocols:
            context.set_alpn_protocols(list(self.protocols))
        return context

    def _trusting_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca, capath=self.ca_path, cadata=self.ca_data)

    def checked(self, *, where: str) -> TlsOptions:
        """Return these options, or raise if their files cannot be used."""
        if self.ca_path and not Path(self.ca_path).is_dir():  # OpenSSL would find no authority
            raise ConfigurationError(f"{where}: tls_ca_path={self.ca_path} is not a directory")
        try:
            self.context()
        except (OSError, ValueError) as error:  # a missing file, or one without a certificate
            raise ConfigurationError(f"{where}: {self._explained(error)}") from error
        return self

    def _explained(self, error: Exception) -> str:
        """Return which option is wrong, and why."""
        for option, file, content in (
            ("tls_ca", self.ca, "certificate"),
            ("tls_cert", self.cert, "certificate"),
            ("tls_key", self.key, "private key"),
        ):
            if file and (mistake := _mistake_in(file, content)):
                instead = "; use tls_ca_path" if (option, mistake) == ("tls_ca", _DIRECTORY) else ""
                return f"{option}={file} {mistake}{instead}"
        try:
            self._trusting_context()
        except (OSError, ValueError):
            return f"tls_ca={self.ca} cannot be used ({error})"
        if self.cert and not self.key and _mistake_in(self.cert, "private key"):
            return f"tls_cert={self.cert} contains no private key; give tls_key"
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            return f"tls_key={self.key} is not the key of tls_cert={self.cert}"
        return (
            f"tls_cert={self.cert} with tls_key={self.key or self.cert} cannot be used ({error}); "
            "correct one of them, or tls_key_password"
        )


_DIRECTORY = "is a directory"


def _mistake_in(file: str, content: str) -> str | None:
    """Return why a file cannot have this content; None if it seems to have it."""
    try:
        text = Path(file).read_bytes()
    except IsADirectoryError:
        return _DIRECTORY
    except (OSError, ValueError) as error:
        return f"cannot be read ({getattr(error, 'strerror', error)})"
    return None if f"{content.upper()}-----".encode() in text else f"contains no {content}"


def tls_of_options(
    options: Mapping[str, Any], *, where: str, scheme: str = "", protocols: tuple[str, ...] = ()
) -> TlsOptions | None:
    """Return the TLS options in the options of an address; None if there is to be no TLS.

    The options have our own names. If there is a scheme with TLS and one without, `scheme` decides
    with the option `tls`; otherwise any TLS option means TLS.
    """
    given = {name: options[name] for name in sorted(TLS_OPTIONS & options.keys())}
    switch, other = given.pop("tls", None), scheme_without_tls(scheme)
    if other and switch is False:
        raise ConfigurationError(
            f"{where}: tls=false contradicts {scheme}://; write {other}://, or leave tls out"
        )
    secure = scheme_with_tls(scheme)
    is_on = (bool(other) or (not secure and bool(given))) if switch is None else switch
    if not is_on:
        if given:
            raise needs_tls(given, where=where, scheme=scheme)
        return None
    for name, value in given.items():
        if not value and name != "tls_key_password":
            raise ConfigurationError(f"{where}: {name} is empty; give its value, or leave it out")
    if given.get("tls_key") and not given.get("tls_cert"):
        raise ConfigurationError(f"{where}: tls_key is the key of a certificate; give tls_cert too")
    return TlsOptions(
        **{name.removeprefix("tls_"): value for name, value in given.items()}, protocols=protocols
    ).checked(where=where)


def needs_tls(options: Collection[str], *, where: str, scheme: str) -> ConfigurationError:
    """Return the error for TLS options of a server without TLS."""
    named = ", ".join(sorted(options))
    need, them = ("needs", named) if len(options) == 1 else ("need", "them")
    secure = scheme_with_tls(scheme)
    how = f"write {secure}:// (or add tls=true)" if secure else "write tls=true"
    return ConfigurationError(f"{where}: {named} {need} TLS; {how}, or leave {them} out")


_SECURE_SCHEMES = {"redis": "rediss", "redlock": "redlocks", "etcd": "etcds"}
_PLAIN_SCHEMES = {secure: plain for plain, secure in _SECURE_SCHEMES.items()}


def scheme_with_tls(scheme: str) -> str:
    """Return the scheme that is like this one, but with TLS; "" if there is none."""
    base, plus, topology = scheme.partition("+")
    return f"{_SECURE_SCHEMES[base]}{plus}{topology}" if base in _SECURE_SCHEMES else ""


def scheme_without_tls(scheme: str) -> str:
    """Return the scheme that is like this one, but without TLS; "" if there is none."""
    base, plus, topology = scheme.partition("+")
    return f"{_PLAIN_SCHEMES[base]}{plus}{topology}" if base in _PLAIN_SCHEMES else ""


_OF_CLIENTS = {
    "ssl_ca_data": "ca_data",
    "ssl_ciphers": "ciphers",
    "ssl_min_version": "least_version",
}


def tls_of_client(
    options: Mapping[str, Any], settings: Mapping[str, Any], *, where: str
) -> TlsOptions:
    """Return the TLS options of a redis-py or valkey-py client.

    `options` are those of its settings that have a name of ours. A setting that is not known here
    may ask for a stricter check, so it is refused.
    """
    found = {name.removeprefix("tls_"): options[name] for name in TLS_OPTIONS & options.keys()}
    found.pop("tls", None)
    for name, value in settings.items():
        if name in _OF_CLIENTS:
            found[_OF_CLIENTS[name]] = value
        elif name.startswith("ssl_") and name not in SERVER_ALIASES and value:
            raise ConfigurationError(
                f"{where}: this client has the TLS setting {name}, which Lockfast does not have; "
                "give the locks a URL with TLS options of their own"
            )
    return TlsOptions(**found).checked(where=where)
