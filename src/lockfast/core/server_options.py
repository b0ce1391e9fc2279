"""The options of servers for TLS and login: one name each, whatever other libraries call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from lockfast.errors import ConfigurationError
from lockfast.options import checked_keywords, checked_switch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Verification = Literal["full", "ca", "none"]

SERVER_ALIASES: Final = {
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
    "user": "username",
}
"""The names of other libraries, and of older versions of this one, each with ours."""

LOGIN_OPTIONS: Final = frozenset({"password", "username"})
TLS_OPTIONS: Final = frozenset(SERVER_ALIASES.values()) - LOGIN_OPTIONS

_TEXTS = LOGIN_OPTIONS | {"sentinel_password", "sentinel_username"}

_EQUIVALENTS = {
    "tls": ("use_ssl", "sslmode"),
    "tls_ca": ("ca", "sslrootcert"),
    "tls_cert": ("certfile", "sslcert"),
    "tls_key": ("keyfile", "sslkey"),
    "tls_key_password": ("keyfile_password", "sslpassword"),
    "tls_verify": ("verify_certs", "sslmode"),
    "username": ("auth_data", "user"),
}
"""What stores call an option whose connections are made by a driver, under its own names."""


def server_options(
    given: Mapping[str, Any], *, accepted: Collection[str], what: str, where: str
) -> dict[str, Any]:
    """Return the options from one source, each under our own name; raise for unknown options.

    Two names of one option may have the same value; but names of `tls_verify` are combined, because
    other libraries have a switch for each of the two checks. TLS and login options of the value
    None count as not given. A switch becomes a bool; a path or bytes become text.
    """
    aliases = {name: ours for name, ours in SERVER_ALIASES.items() if ours in accepted}
    hints = {
        name: f"did you mean {one}?"
        for name in given
        for one in _EQUIVALENTS.get(SERVER_ALIASES.get(name, name), ())
        if one in accepted
    }
    checked_keywords(given, accepted=accepted, what=what, aliases=aliases, hints=hints)
    found: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for name, value in given.items():
        ours = name if name in accepted else aliases[name]
        meant = _meant(name, ours, value, where=where)
        if meant is None and ours in TLS_OPTIONS | _TEXTS:
            continue
        if ours == "tls_verify":
            meant = max(meant, found.get(ours, "full"), key=("full", "ca", "none").index)
        elif found.get(ours, meant) != meant:
            raise ConfigurationError(
                f"{where}: {spelled[ours]} and {name} are two names of one option and have "
                "different values; give one of them"
            )
        found[ours], spelled[ours] = meant, name
    return found


def _meant(name: str, ours: str, value: Any, *, where: str) -> Any:  # noqa: ANN401 - any option's
    if value is None:
        return None
    if ours == "tls_verify":
        return _verification(name, value, where=where)
    if ours == "tls":
        return checked_switch(f"{where}: {name}", value)
    if ours in TLS_OPTIONS | _TEXTS:
        return value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)
    return value


_VERIFICATIONS: dict[str, Mapping[str, Verification]] = {
    "tls_verify": {
        **dict.fromkeys(("full", "true", "1", "yes"), "full"),
        "ca": "ca",
        **dict.fromkeys(("none", "false", "0", "no"), "none"),
    },
    # A word, or a constant of Python's `ssl`.
    "ssl_cert_reqs": {
        **dict.fromkeys(("required", "2", "optional", "1"), "full"),
        **dict.fromkeys(("none", "0"), "none"),
    },
}


def _verification(name: str, value: object, *, where: str) -> Verification:
    if name == "ssl_check_hostname":
        return "full" if checked_switch(f"{where}: {name}", value) else "ca"
    words = _VERIFICATIONS[name]
    found = words.get(str(value).lower().rpartition(".")[2].removeprefix("cert_"))
    if found is None:
        accepted = "full, ca or none" if name == "tls_verify" else "required, optional or none"
        raise ConfigurationError(f"{where}: {name} must be {accepted}, not {str(value)!r}")
    return found
