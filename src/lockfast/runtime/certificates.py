"""What checks a server's certificate, and shows ours: made of options that name files."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from lockfast.errors import ConfigurationError
from lockfast.options import checked_switch

if TYPE_CHECKING:
    from collections.abc import Mapping


def tls_context(options: Mapping[str, object], *, where: str) -> ssl.SSLContext | None:
    """Return what `ssl`, `ssl_ca`, `ssl_cert` and `ssl_key` ask for, None if none asks for TLS."""
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
