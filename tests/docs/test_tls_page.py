"""Every store with our own TLS options has exactly those that the page on TLS lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_pages import ROOT

from lockfast import AsyncLocks, Locks
from lockfast.urls import backend_class
from lockfast_challenge.servers.certificates import certificates

PAGE = (ROOT / "docs" / "reference" / "tls.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(?P<option>tls\w*)` \| (?P<others>[^|]*) \|", re.MULTILINE)
OPTIONS = {row["option"]: re.findall(r"`(\w+)`", row["others"]) for row in ROW.finditer(PAGE)}
NAMES = {name: option for option, others in OPTIONS.items() for name in (option, *others)}

URLS = (
    "rediss://host",
    "rediss+sentinel://h1,h2,h3/mymaster",
    "rediss+cluster://h1,h2,h3",
    "redlocks://h1,h2,h3",
    "etcds://h1,h2,h3",
    "memcached://host",
    "mysql://user@host/shop",
    "mariadb://user@host/shop",
)


def value_of(name: str) -> object:
    """Return a value that this option accepts."""
    found = certificates()
    values = {
        "tls": True,
        "tls_ca": found.authority,
        "tls_ca_path": str(Path(found.authority).parent),
        "tls_cert": found.certificate,
        "tls_key": found.key,
        "tls_key_password": "secret",
        "tls_verify": "none",
    }
    return False if name == "ssl_check_hostname" else values[NAMES[name]]


@pytest.mark.parametrize("url", URLS)
def test_the_options_of_each_store_are_those_on_the_page(url):
    accepted = backend_class(url.partition("://")[0], flavour="_sync").options

    assert {one for one in accepted if one.startswith("tls")} == set(OPTIONS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("url", URLS)
def test_every_name_on_the_page_is_accepted(url, name):
    option = NAMES[name]
    given = {name: value_of(name)}
    if option in ("tls_cert", "tls_key"):  # neither is of use without the other
        other = "tls_key" if option == "tls_cert" else "tls_cert"
        given[other] = value_of(other)

    for kind in (Locks, AsyncLocks):
        kind(url, **given)


@pytest.mark.parametrize("url", URLS)
def test_the_page_names_every_url_with_tls(url):
    assert f"`{url.partition('://')[0]}://`" in PAGE
