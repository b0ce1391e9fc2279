"""The server's address as libpq reads it, from a URL, the environment or a service file; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

# With these keepalives, a connection that was cut silently is noticed within half a minute, not
# after two hours.
DEFAULTS = {
    "fallback_application_name": "lockfast",
    "client_encoding": "UTF8",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}

ACCEPTED_PARAMETERS = frozenset(
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
"""libpq parameters accepted as options or in the URL; the oldest supported libpq has most of
them."""

OWN_PARAMETERS = frozenset({"connect_timeout"})
"""libpq parameters that are dropped: only its connect timeout, because our requests have
deadlines."""


@dataclass(frozen=True, slots=True)
class Address:
    """All settings for libpq; `where` names the server, without a password."""

    where: str
    settings: Mapping[str, str] = field(repr=False)

    def attempts(self) -> list[dict[str, str]]:
        """Return the settings of each connection to try, one for each host, in order.

        Left to itself, libpq would spend all the time on the first host and leave no time for the
        second.
        """
        settings = dict(self.settings)
        hosts = settings.get("host", "").split(",")
        addresses = settings.get("hostaddr", "").split(",")
        ports = settings.get("port", "").split(",")
        count = max(len(hosts), len(addresses))
        if count > 1:
            # Only one of the hosts is the primary, and another host may become the primary later.
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
    """Return the address in the URL; options override what the URL says.

    Settings that are neither in the URL nor in the options are left to libpq, which reads the
    environment.
    """
    reason = None
    options_as_text = {key: str(value) for key, value in options.items()}
    try:
        found = conninfo_to_dict(url, **options_as_text)
    except ProgrammingError as error:
        found = {}
        # Our error is raised below, outside this handler, so that the driver's error does not
        # become its context. The driver's error quotes the text that could not be parsed, which may
        # be the password.
        is_option = re.search("connection option|query parameter", str(error))
        reason = (
            "it has an option that libpq does not know"
            if is_option
            else "percent-encode what is special in the user, the password and the database"
        )
    if reason is not None:
        raise ConfigurationError(f"{where} cannot be read as libpq would: {reason}")
    settings = {key: str(value) for key, value in found.items() if key not in OWN_PARAMETERS}
    return Address(where, {**DEFAULTS, **settings})


def conninfo_of(settings: Mapping[str, str]) -> str:
    """Return the settings as one string for libpq."""
    return make_conninfo("", **settings)
