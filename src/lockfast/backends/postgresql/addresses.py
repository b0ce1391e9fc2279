"""Where the server is, as libpq reads it: a URL, the environment, a service file; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

# A connection that was cut without a word is noticed within half a minute, not in two hours.
DEFAULTS = {
    "fallback_application_name": "lockfast",
    "client_encoding": "UTF8",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}

ACCEPTED = frozenset(
    {
        "application_name",
        "channel_binding",
        "connect_timeout",
        "dbname",
        "gssencmode",
        "host",
        "hostaddr",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "krbsrvname",
        "options",
        "passfile",
        "password",
        "port",
        "require_auth",
        "requirepeer",
        "service",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslpassword",
        "sslrootcert",
        "target_session_attrs",
        "tcp_user_timeout",
        "user",
    }
)
"""What may be said beside the URL, or in it, to libpq; the oldest that serves knows most."""

OURS = frozenset({"connect_timeout"})
"""What libpq would wait by; our requests have deadlines."""


@dataclass(frozen=True, slots=True)
class Address:
    """Everything that libpq is told; `where` names it, without a password."""

    where: str
    settings: Mapping[str, str] = field(repr=False)

    def attempts(self) -> list[dict[str, str]]:
        """Return the settings of each connection to try, in their order: one for each host.

        Left to itself, libpq would wait for the first host as long as there is time, and for
        the second not at all.
        """
        settings = dict(self.settings)
        hosts = settings.get("host", "").split(",")
        addresses = settings.get("hostaddr", "").split(",")
        ports = settings.get("port", "").split(",")
        count = max(len(hosts), len(addresses))
        if count > 1:
            # One of them is the primary, and which may change.
            settings.setdefault("target_session_attrs", "read-write")
        found = []
        for i in range(count):
            one = {
                "host": hosts[i] if len(hosts) > 1 else hosts[0],
                "hostaddr": addresses[i] if len(addresses) > 1 else addresses[0],
                "port": ports[i] if len(ports) == count else ports[0],
            }
            found.append({**settings, **one})
        return [{key: value for key, value in one.items() if value} for one in found]


def address_of_url(url: str, *, where: str, options: Mapping[str, object]) -> Address:
    """Return what the URL names; options beside it win over what stands in it.

    What neither says is left to libpq, which asks the environment.
    """
    reason = None
    given = {key: str(value) for key, value in options.items()}
    try:
        found = conninfo_to_dict(url, **given)
    except ProgrammingError as error:
        found = {}
        # Not raised here: the driver's error quotes what could not be read, and that may be the
        # password.
        is_option = re.search("connection option|query parameter", str(error))
        reason = (
            "it has an option that libpq does not know"
            if is_option
            else "percent-encode what is special in the user, the password and the database"
        )
    if reason is not None:
        raise ConfigurationError(f"{where} cannot be read as libpq would: {reason}")
    settings = {key: str(value) for key, value in found.items() if key not in OURS}
    return Address(where, {**DEFAULTS, **settings})


def conninfo_of(settings: Mapping[str, str]) -> str:
    """Return the settings as one string for libpq."""
    return make_conninfo("", **settings)
