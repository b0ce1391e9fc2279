"""The address of an ensemble and its login, read from a URL or from a kazoo client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from kazoo.hosts import collect_hosts
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from lockfast.backends.zookeeper.nodes import component
from lockfast.errors import ConfigurationError
from lockfast.options import checked_switch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OPTIONS = frozenset(
    {
        "acl",
        "auth_data",
        "ca",
        "certfile",
        "check_hostname",
        "keyfile",
        "keyfile_password",
        "randomize_hosts",
        "sasl_options",
        "use_ssl",
        "verify_certs",
    }
)
"""Accepted options, with KazooClient's names and types; `acl` is KazooClient's `default_acl`."""

_SWITCHES = {"check_hostname", "randomize_hosts", "use_ssl", "verify_certs"}


@dataclass(frozen=True, slots=True)
class Address:
    """An ensemble, and the path of our nodes in it."""

    where: str
    chroot: str
    namespace: str
    users: tuple[str, ...]
    acl: tuple[Any, ...] = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)

    @property
    def root(self) -> str:
        """The path of the node that has the nodes of all names in this namespace as children."""
        return f"{self.chroot}/{component(self.namespace)}"


def of_url(url: str, *, where: str, namespace: str, options: Mapping[str, Any]) -> Address:
    """Return the address in `zookeeper://user:password@host1,host2:2181/chroot`."""
    place = url.partition("://")[2]
    login, at, place = place.rpartition("@")
    hosts, slash, path = place.partition("/")
    chroot = unquote(slash + path).rstrip("/")
    if any(part in ("", ".", "..") for part in chroot.split("/")[1:]):
        raise ConfigurationError(
            f"{where!r}: ZooKeeper has no path {chroot}; write zookeeper://host/path/to/locks"
        )
    if not all(hosts.split(",")):
        raise ConfigurationError(
            f"{where!r} names no host; write zookeeper://host1:2181,host2:2181,host3:2181/path"
        )
    given = _checked(options)
    if at:
        user, colon, password = login.partition(":")
        if not (user and colon):
            raise ConfigurationError(
                f"{where!r}: a login is user:password, for the digest scheme of ZooKeeper"
            )
        digest = ("digest", f"{unquote(user)}:{unquote(password)}")
        given["auth_data"] = [*given.get("auth_data", ()), digest]
    return _address(hosts, chroot=chroot, where=where, namespace=namespace, given=given)


def of_client(client: Any, *, namespace: str) -> Address:  # noqa: ANN401 - kazoo has no types
    """Return the address that a kazoo client connects to; only its settings are read."""
    hosts = ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in client.hosts
    )
    given = {
        name: getattr(client, name)
        for name in OPTIONS - {"acl", "sasl_options"}
        if getattr(client, name, None) is not None
    }
    if client.default_acl:
        given["acl"] = client.default_acl
    if client._connection.sasl_options:  # noqa: SLF001 - there is no public attribute
        given["sasl_options"] = dict(client._connection.sasl_options)  # noqa: SLF001
    where = f"zookeeper://{hosts}{client.chroot}"
    return _address(hosts, chroot=client.chroot, where=where, namespace=namespace, given=given)


def _address(
    hosts: str, *, chroot: str, where: str, namespace: str, given: dict[str, Any]
) -> Address:
    try:
        collect_hosts(hosts)
    except ValueError as error:
        raise ConfigurationError(f"{where!r}: {error}; a port is a number") from None
    acl = given.pop("acl", None)
    if acl is None:
        is_known = given.get("auth_data") or given.get("sasl_options")
        acl = CREATOR_ALL_ACL if is_known else OPEN_ACL_UNSAFE
    if given.get("use_ssl") and given.get("verify_certs", True):
        given.setdefault("check_hostname", True)
    # Leave out the chroot: we put it before our paths ourselves, because our requests bypass
    # kazoo's methods.
    options = {**given, "hosts": hosts}
    users = tuple(str(one[1]).partition(":")[0] for one in given.get("auth_data", ()))
    return Address(where, chroot, namespace, users, _checked_acl(acl), options)


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(options)
    for name in _SWITCHES & set(given):
        given[name] = checked_switch(name, given[name])
    if given.get("keyfile") and not given.get("certfile"):
        raise ConfigurationError("keyfile is the key of a certificate; give certfile too")
    pairs = given.get("auth_data", ())
    if not all(isinstance(one, tuple | list) and len(one) == 2 for one in pairs):  # noqa: PLR2004
        raise ConfigurationError(
            'auth_data is a list of pairs, such as [("digest", "user:password")]'
        )
    if not isinstance(given.get("sasl_options", {}), dict):
        raise ConfigurationError('sasl_options is a dict, such as {"mechanism": "GSSAPI"}')
    return given


def _checked_acl(acl: Sequence[Any]) -> tuple[Any, ...]:
    if isinstance(acl, ACL) or not isinstance(acl, tuple | list) or not acl:
        raise ConfigurationError("acl is a list of kazoo.security.ACL, as make_acl returns them")
    if not all(isinstance(one, ACL) for one in acl):
        raise ConfigurationError("acl is a list of kazoo.security.ACL, as make_acl returns them")
    return tuple(acl)
