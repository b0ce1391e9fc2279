"""Names are bytes, so each name is a lock of its own under any collation."""

from __future__ import annotations

import pytest
from odd_names import are_distinct

LOCALES = {
    "plain": "LOCALE 'C'",
    # This collation ignores both case and accents.
    "loose": "LOCALE 'C' LOCALE_PROVIDER icu ICU_LOCALE 'und-u-ks-level1'",
}


@pytest.mark.parametrize("locale", LOCALES)
def test_names_that_a_collation_takes_for_the_same_are_distinct_locks(
    flavour, server, namespace, locale
):
    database = f"names_{locale}_{flavour.name}"
    server.run(f"CREATE DATABASE {database} TEMPLATE template0 ENCODING 'UTF8' {LOCALES[locale]}")

    assert are_distinct(flavour.locks(server.url(database), namespace=namespace))
