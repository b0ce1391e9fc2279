"""A server on which a name has had so many claims that its sequence is near its end.

Nobody can wait for two thousand million claims, so the server starts with a forged transaction log.
"""

from __future__ import annotations

import struct
import time
import zlib

from lockfast_challenge.servers.zookeeper import ZooKeeperServer

OPEN = struct.pack(">ii", 1, 31)
"""An ACL with a single entry, which allows everything to everybody."""

CREATE, DELETE, CREATE_CONTAINER = 1, 2, 19


def server_with(name: str, *, sequence: int) -> ZooKeeperServer:
    """Return a server, not started, at which the next claim on a name gets this sequence."""
    server = ZooKeeperServer(java=("-Dzookeeper.snapshot.trust.empty=true",))
    door, claim = f"/lockfast/{name}", f"/lockfast/{name}/00-1-0000000000"
    record = b'{"format": 1, "capacity": 1}'
    log = [
        _header(1, CREATE) + _node("/lockfast", b"") + struct.pack(">?i", False, 1),
        _header(2, CREATE_CONTAINER) + _node(door, record) + struct.pack(">i", 1),
        _header(3, CREATE) + _node(claim, b"") + struct.pack(">?i", False, sequence),
        _header(4, DELETE) + _string(claim.encode()),
    ]
    folder = server.directory / "data" / "version-2"
    folder.mkdir(parents=True)
    written = b"".join(struct.pack(">qi", zlib.adler32(one), len(one)) + one + b"B" for one in log)
    (folder / "log.1").write_bytes(struct.pack(">4siq", b"ZKLG", 2, 0) + written)
    return server


def _header(zxid: int, kind: int) -> bytes:
    return struct.pack(">qiqqi", 0, 0, zxid, int(time.time() * 1000), kind)


def _node(path: str, data: bytes) -> bytes:
    anyone = OPEN + _string(b"world") + _string(b"anyone")
    return _string(path.encode()) + _string(data) + anyone


def _string(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text
