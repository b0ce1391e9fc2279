"""How TLS is spoken with a member."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


def context(options: Mapping[str, Any], *, where: str) -> ssl.SSLContext:
    """Return how it is spoken, by the options of the address."""
    try:
        found = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
        if options.get("ssl_certfile"):
            found.load_cert_chain(
                options["ssl_certfile"], options.get("ssl_keyfile"), options.get("ssl_password")
            )
    except OSError as error:  # a file that is not there, or is no certificate
        raise ConfigurationError(
            f"{where}: a file with a certificate or a key cannot be used ({error}); correct "
            "ssl_ca_certs, ssl_certfile or ssl_keyfile"
        ) from error
    found.check_hostname = bool(options.get("ssl_check_hostname", True))
    # Newer members refuse whoever does not say which protocol is meant.
    found.set_alpn_protocols(["h2"])
    return found
