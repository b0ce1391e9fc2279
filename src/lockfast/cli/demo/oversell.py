"""Demo: workers check the stock, then act, and oversell. As a program, this file is one worker."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from lockfast.cli.demo.command import Play, Span
from lockfast.cli.demo.crew import played, send_message, wait_for_director, worker_client

NAME = "oversell"
TITLE = "Overselling"
TEXT = (
    "Four workers sell a stock of 100. Each looks whether some is left, takes the payment, "
    "and writes the new stock back."
)
CODE = """\
with locks.lock("stock"):
    if left := read_stock():
        take_payment()
        write_stock(left - 1)"""

STOCK = 100
PAYMENT = 0.002
WORKERS = [f"worker {number}" for number in range(1, 5)]


def play(url: str | None, *, guarded: bool) -> Play:
    """Let four processes sell the stock, and count the sales."""
    with tempfile.TemporaryDirectory() as folder:
        write_stock(Path(folder), STOCK, by="director")
        arguments = [folder, f"stock-{os.getpid()}", "guarded" if guarded else ""]
        sales, seconds = played(__name__, WORKERS, arguments, url=url)
        left = read_stock(Path(folder))
    sold = len(sales)
    return Play(
        NAME,
        guarded,
        seconds,
        verdict=f"sold {sold} of {STOCK}",
        is_right=sold == STOCK and left == 0,
        sold=sold,
        stock=STOCK,
        spans=spans_of([(who, one["begin"], one["end"]) for who, one in sales]),
        zoom=14,
    )


def spans_of(sales: list[tuple[str, float, float]]) -> tuple[Span, ...]:
    """Return the sales in order; sales that overlap are wrong, because both saw the same stock."""
    ordered = sorted(sales, key=lambda one: one[1])
    return tuple(
        Span(
            who,
            begin,
            end,
            is_wrong=any(b < end and begin < e and other != who for other, b, e in ordered),
        )
        for who, begin, end in ordered
    )


def read_stock(folder: Path) -> int:
    """Return how many items are in stock."""
    return int((folder / "stock").read_text())


def write_stock(folder: Path, left: int, *, by: str) -> None:
    """Write how many items are in stock; a reader sees either the old number or the new one."""
    draft = folder / f"draft of {by}"
    draft.write_text(str(left))
    draft.replace(folder / "stock")


def work(me: str, folder: Path, name: str, *, guarded: bool) -> None:
    """Sell items until none is left."""
    sales = []
    with worker_client(me) as locks:
        lock = locks.lock(name) if guarded else nullcontext()
        send_message("ready")
        wait_for_director()
        is_left = True
        while is_left:
            with lock:
                begin = time.monotonic()
                left = read_stock(folder)
                is_left = left > 0
                if is_left:
                    time.sleep(PAYMENT)  # stands for the customer's payment
                    write_stock(folder, left - 1, by=me)
                    sales.append((begin, time.monotonic()))
    for begin, end in sales:
        send_message("sold", begin=begin, end=end)


if __name__ == "__main__":
    work(sys.argv[1], Path(sys.argv[2]), sys.argv[3], guarded=bool(sys.argv[4]))
