"""Sales from a stock in shards, by many processes: a file records what each shard has sold.

    sharded_stock.py FILE PROCESSES TIMES SHARDS URL

Each sale reads what its shard has sold and writes one more a moment later: a sale in between is
lost. The exit code is 0 if every process ended with 0.
"""

from __future__ import annotations

import os
import struct
import sys
from multiprocessing.synchronize import Barrier

from stock import LONG, MOMENT, all_at_once, spin

from lockfast import Locks


def sell(together: Barrier, path: str, times: int, shards: int, url: str) -> None:
    """Sell one piece after another, once all processes are ready."""
    goods = os.open(path, os.O_RDWR)
    stock = Locks(url, request_timeout=30).sharded("stock", shards=shards, timeout=LONG)
    together.wait(LONG)
    for _ in range(times):
        with stock as lease:
            at = 8 * lease.shard
            [sold] = struct.unpack("=q", os.pread(goods, 8, at))
            spin(MOMENT)
            os.pwrite(goods, struct.pack("=q", sold + 1), at)


def main(path: str, processes: str, times: str, shards: str, url: str) -> None:
    sys.exit(not all_at_once(int(processes), sell, path, int(times), int(shards), url))


if __name__ == "__main__":
    main(*sys.argv[1:])
