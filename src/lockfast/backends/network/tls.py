"""TLS options of all stores that speak over our own sockets, and the context made from them.

Every store accepts the same names, `tls`, `tls_ca`, `tls_ca_path`, `tls_cert`, `tls_key`,
`tls_key_password` and `tls_verify`. The names of other libraries are understood as well.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lockfast.errors import ConfigurationError
from lockfast.options import checked_switch

if TYPE_CHECKING:
    from collections.abc import Mapping

Verification = Literal["full", "ca", "none"]

TLS_ALIASES = {
    "ssl": "tls",
    "ssl_ca": "tls_ca",
    "ssl_ca_certs": "tls_ca",
    "ssl_ca_path": "tls_ca_path",
    "ssl_cert": "tls_cert",
    "ssl_certfile": "tls_cert",
    "ssl_key": "tls_key",
    "ssl_keyfile": "tls_key",
    "ssl_password": "tls_key_password",
    "ssl_check_hostname": "tls_verify",
    "ssl_cert_reqs": "tls_verify",
}
"""The names of other libraries, and of older versions of this one, each with ours."""

TLS_OPTIONS = frozenset(TLS_ALIASES.values())

_FULL: Verification = "full"
_CA: Verification = "ca"
_NONE: Verification = "none"
_VERIFICATIONS = {
    **dict.fromkeys(("full", "true", "1", "yes"), _FULL),
    "ca": _CA,
    **dict.fromkeys(("none", "false", "0", "no"), _NONE),
}
_REQUIREMENTS = {
    **dict.fromkeys(("none", "0"), _NONE),
    **dict.fromkeys(("optional", "1", "required", "2"), _FULL),
}
"""How other libraries write it: a word, or a constant of Python's `ssl`."""


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
    _made: dict[object, ssl.SSLContext] = field(
        default_factory=dict, repr=False, compare=False, init=False
    )

    def context(self) -> ssl.SSLContext:
        """Return the context for a connection; OSError if a file cannot be read.

        The files are read again once they have changed, because certificates are replaced while
        programs run.
        """
        files = [one for one in (self.ca, self.ca_path, self.cert, self.key) if one]
        read = tuple((found.st_mtime_ns, found.st_ino) for found in map(os.stat, files))
        context = self._made.get(read)
        if context is None:
            context = self._new_context()
            self._made.clear()
            self._made[read] = context
        return context

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(
            cafile=self.ca, capath=self.ca_path, cadata=self.ca_data
        )
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

    def checked(self, *, where: str) -> TlsOptions:
        """Return these options, or raise if their files cannot be used."""
        try:
            self.context()
        except (OSError, ValueError) as error:  # a missing file, or one without a certificate
            raise ConfigurationError(
                f"{where}: a file with a certificate or a key cannot be used ({error}); correct "
                "tls_ca, tls_cert, tls_key or tls_key_password"
            ) from error
        return self


def tls_of_options(
    options: Mapping[str, Any],
    *,
    where: str,
    tls_by_scheme: bool | None = None,
    secure_scheme: str = "",
    protocols: tuple[str, ...] = (),
) -> TlsOptions | None:
    """Return the TLS options in the options of an address; None if there is to be no TLS.

    `tls_by_scheme` says whether the URL's scheme asks for TLS; without such a scheme the options
    decide, and any of them means TLS. `secure_scheme` is the scheme that asks for it.
    """
    given = canonical(options)
    switch = given.pop("tls", None)
    if tls_by_scheme is None:
        is_on = bool(given) if switch is None else checked_switch("tls", switch)
    elif switch is None:
        is_on = tls_by_scheme
    else:
        is_on = checked_switch("tls", switch)
        if tls_by_scheme and not is_on:
            raise ConfigurationError(f"tls={switch!r}: {where} says that TLS is used")
    if not is_on:
        if given:
            instead = f"; write {secure_scheme}://" if secure_scheme else " with tls=true"
            raise ConfigurationError(f"{', '.join(sorted(given))}: only with TLS{instead}")
        return None
    if given.get("tls_key") and not given.get("tls_cert"):
        raise ConfigurationError("tls_key is the key of a certificate; give tls_cert too")
    return TlsOptions(
        **{name.removeprefix("tls_"): value for name, value in given.items()}, protocols=protocols
    ).checked(where=where)


_OF_CLIENTS = {
    "ssl_ca_data": "ca_data",
    "ssl_ciphers": "ciphers",
    "ssl_min_version": "least_version",
}


def tls_of_client(settings: Mapping[str, Any], *, where: str) -> TlsOptions:
    """Return the TLS options among the settings of a redis-py or valkey-py client.

    A setting that is not known here may ask for a stricter check, so it is refused.
    """
    given = canonical(settings)
    given.pop("tls", None)
    found = {name.removeprefix("tls_"): value for name, value in given.items()}
    for name, value in settings.items():
        if name in _OF_CLIENTS:
            found[_OF_CLIENTS[name]] = value
        elif name.startswith("ssl_") and name not in TLS_ALIASES and value:
            raise ConfigurationError(
                f"{where}: this client has the TLS setting {name}, which Lockfast does not have; "
                "give the locks a URL with TLS options of their own"
            )
    return TlsOptions(**found).checked(where=where)


def renamed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all these options, with the TLS options by our own names."""
    others = {name: options[name] for name in options if name not in TLS_ALIASES}
    return others | canonical(options)


def canonical(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the TLS options among these, by our own names, with `tls_verify` as one word.

    Options of the value None count as not given.
    """
    found: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for name, value in options.items():
        ours = TLS_ALIASES.get(name, name)
        if ours not in TLS_OPTIONS or value is None:
            continue
        if ours == "tls_verify":
            # Two of its names each turn one check off.
            meant: Any = _weaker(found.get(ours, _FULL), _verification(name, value))
        else:
            meant = value if ours == "tls" else os.fspath(value)
        if ours != "tls_verify" and found.get(ours, meant) != meant:
            raise ConfigurationError(
                f"{spelled[ours]} and {name} mean the same option, and have different values"
            )
        found[ours], spelled[ours] = meant, name
    return found


def _weaker(one: Verification, other: Verification) -> Verification:
    return max(one, other, key=(_FULL, _CA, _NONE).index)


def _verification(name: str, value: object) -> Verification:
    if name == "ssl_check_hostname":
        return _FULL if checked_switch(name, value) else _CA
    word = str(value).lower()
    if name == "ssl_cert_reqs":
        found = _REQUIREMENTS.get(word.rpartition(".")[2].removeprefix("cert_"))
    else:
        found = _VERIFICATIONS.get(word)
    if found is None:
        raise ConfigurationError(f"{name}={value!r}: full, ca or none is accepted")
    return found
