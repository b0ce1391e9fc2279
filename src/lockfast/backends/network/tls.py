"""TLS contexts, made from options that name files."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from lockfast.errors import ConfigurationError
from lockfast.options import checked_switch

if TYPE_CHECKING:
    from collections.abc import Mapping


def tls_context_of_files(options: Mapping[str, Any], *, where: str) -> ssl.SSLContext:
    """Return the TLS context for an etcd member, from the options of the address."""
    try:
        found = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
        if options.get("ssl_certfile"):
            found.load_cert_chain(
                options["ssl_certfile"], options.get("ssl_keyfile"), options.get("ssl_password")
            )
    except OSError as error:  # a missing file, or one without a certificate
        raise ConfigurationError(
            f"{where}: a file with a certificate or a key cannot be used ({error}); correct "
            "ssl_ca_certs, ssl_certfile or ssl_keyfile"
        ) from error
    found.check_hostname = bool(options.get("ssl_check_hostname", True))
    # Newer etcd members refuse clients that do not name the protocol in the TLS handshake.
    found.set_alpn_protocols(["h2"])
    return found


# The context with which we check a server's certificate and present our own.


def tls_context(options: Mapping[str, object], *, where: str) -> ssl.SSLContext | None:
    """Return the context for `ssl`, `ssl_ca`, `ssl_cert` and `ssl_key`; None without TLS."""
    files = {key: str(options[key]) for key in ("ssl_ca", "ssl_cert", "ssl_key") if key in options}
    if not checked_switch("ssl", options.get("ssl", bool(files))):
        return None
    try:
        context = ssl.create_default_context(cafile=files.get("ssl_ca"))
        if "ssl_cert" in files:
            context.load_cert_chain(files["ssl_cert"], files.get("ssl_key"))
    except OSError as error:
        raise ConfigurationError(
            f"{where}: a certificate cannot be read ({error}); see ssl_ca, ssl_cert, ssl_key"
        ) from error
    return context
