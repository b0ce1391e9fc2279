"""Write the parts of the documentation that the code declares.

    tools/generate_docs.py            write the parts
    tools/generate_docs.py --check    list what is out of date, and write nothing
    tools/generate_docs.py --picture  play the demo and draw docs/images/demo.svg

Each part is between `<!-- generated: NAME -->` and `<!-- end -->`. A backend appears in the tables
once its page docs/backends/NAME.md exists: we do not offer what is not documented. Each backend
package is described by the first line of its docstring.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import mutants
from lockfast import errors, urls
from lockfast_challenge.broken.registry import FLAWS
from lockfast_challenge.deployments.catalog import STORES, own_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lockfast.model import Capabilities
    from lockfast_challenge.outcome import Exemption

ROOT = Path(__file__).parent.parent
PAGES = (
    "ARCHITECTURE.md",
    "README.md",
    "docs/README.md",
    "docs/concepts/ten-broken-locks.md",
    "docs/reference/capabilities.md",
    "docs/reference/errors.md",
    "docs/reference/faults.md",
    "docs/reference/mutants.md",
)
LINE_LENGTH = 100
BROKEN = ROOT / "challenge" / "src" / "lockfast_challenge" / "broken"
SECTION = re.compile(
    r"(?P<head><!-- generated: (?P<name>[a-z-]+) -->\n).*?(?P<foot><!-- end -->)", re.DOTALL
)


@dataclass(frozen=True)
class Backend:
    """What a backend declares about itself."""

    page: str
    schemes: tuple[str, ...]
    summary: str
    capabilities: Capabilities
    min_ttl: float
    options: tuple[str, ...]


def backends() -> Iterator[Backend]:
    """Yield the backends that have a page; several schemes may lead to one class."""
    by_class: dict[type, list[str]] = {}
    for scheme in urls.schemes():
        try:
            found = urls.backend_class(scheme, flavour="_async")
        except ImportError:
            continue  # its driver is not installed, or it is still being written
        if (ROOT / page_of(found)).exists():
            by_class.setdefault(found, []).append(scheme)
    for found, schemes in by_class.items():
        yield Backend(
            page=page_of(found),
            schemes=tuple(schemes),
            summary=first_line(found),
            capabilities=found.capabilities,
            min_ttl=found.min_ttl,
            options=tuple(sorted(found.options)),
        )


def page_of(backend: type) -> str:
    """Return the page of a backend, named after its package."""
    name = backend.__module__.partition(".backends.")[2].partition(".")[0]
    return f"docs/backends/{name}.md"


def first_line(thing: type) -> str:
    """Return the first line of a docstring."""
    return (thing.__doc__ or "").strip().splitlines()[0]


# -- the sections --------------------------------------------------------------------------


def backends_table() -> Iterator[str]:
    """Yield the README's table of what each backend promises, in words."""
    yield "| backend | what it is | line | read-write, semaphore | token | a lease ends by |"
    yield "|---|---|---|---|---|---|"
    for one in backends():
        can = one.capabilities
        line = "fair" if can.fair else "none: whoever asks first"
        waking = "woken" if can.push_wakeup else "polling"
        yield row(
            f"[`{'`, `'.join(f'{scheme}://' for scheme in one.schemes)}`]({one.page})",
            one.summary,
            f"{line}, {waking}",
            yes(can.shared),
            can.token_quality.replace("_", " "),
            can.ends_by,
        )


def backend_pages() -> Iterator[str]:
    """Yield the list of backend pages for the index of the documentation."""
    for one in backends():
        schemes = "`, `".join(f"{scheme}://" for scheme in one.schemes)
        yield f"- [`{schemes}`]({one.page.removeprefix('docs/')}): {one.summary}"


def benchmark_pages() -> Iterator[str]:
    """Yield the list of benchmark pages, by title, for the index of the documentation."""
    for page in sorted((ROOT / "docs" / "benchmarks").glob("*.md")):
        with page.open(encoding="utf-8") as text:
            title = text.readline().removeprefix("# ").strip().removesuffix(", measured")
        yield f"- [{title}](benchmarks/{page.name})"


def capabilities_table() -> Iterator[str]:
    """Yield the reference's table of the declared capabilities, field by field."""
    fields = (
        *("fair", "shared", "push_wakeup", "explicit_owner", "lock_delay", "hands_over"),
        "sequencers",
    )
    head = (*fields, "token_quality", "ends_by", "shortest ttl", "URL options")
    yield row("backend", *(f"`{one}`" if "_" in one or one in fields else one for one in head))
    yield "|---" * (len(head) + 1) + "|"
    for one in backends():
        can = one.capabilities
        yield row(
            f"[`{'`, `'.join(one.schemes)}`](../{one.page.removeprefix('docs/')})",
            *(yes(getattr(can, field)) for field in fields),
            can.token_quality,
            can.ends_by,
            f"{one.min_ttl:g} s",
            ", ".join(f"`{option}`" for option in one.options) or "none",
        )


def rooms_table() -> Iterator[str]:
    """Yield ARCHITECTURE.md's table of all packages below backends, even those without a URL."""
    yield "| room | what is in it |"
    yield "|---|---|"
    for path in sorted((ROOT / "src" / "lockfast" / "backends").glob("*/__init__.py")):
        # Parse instead of import: the store's driver may not be installed.
        module_doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        yield row(f"`{path.parent.name}/`", module_doc.partition("\n")[0].rstrip("."))


def errors_tree() -> Iterator[str]:
    """Yield the tree of errors that is drawn in the docstring of errors.py."""
    drawn = re.search(r"^    LockError.*?(?=\n\n)", errors.__doc__ or "", re.DOTALL | re.MULTILINE)
    yield "```text"
    yield from (line[4:] for line in (drawn[0] if drawn else "").splitlines())
    yield "```"


def errors_table() -> Iterator[str]:
    """Yield the table of all errors, with their exit codes and HTTP statuses."""
    yield "| error | exit code | HTTP status | what it says |"
    yield "|---|---|---|---|"
    for name in errors_in_order():
        one = getattr(errors, name)
        yield row(f"`{name}`", str(one.exit_code), str(one.http_status), first_line(one))


def errors_in_order() -> list[str]:
    """Return the names of the errors in the order of the tree."""
    return re.findall(r"^[ │├└─]*(\w+)", "\n".join(list(errors_tree())[1:-1]), re.MULTILINE)


def faults_table() -> Iterator[str]:
    """Yield the reference's table of what a challenge does to the servers of each store."""
    allowed = "two may hold at once under", "tokens may go back under"
    yield f"| store | faults | {' | '.join(allowed)} | cannot be made |"
    yield "|---|---|---|---|---|"
    for store in STORES:
        with contextlib.ExitStack() as stack:
            one = own_servers(store, ttl=1.0)  # the servers are never started
            stack.push(one.__exit__)
            made = [fault.kind for fault in one.faults() if not fault.lacks]
            lacking = [f"`{one.kind}`: {one.lacks}" for one in one.faults() if one.lacks]
            yield row(
                f"`{store}`",
                ", ".join(f"`{kind}`" for kind in made) or "none: there is no server",
                exempt(one.exemptions, "overlap"),
                exempt(one.exemptions, "token"),
                "; ".join(lacking) or "-",
            )


def exempt(exemptions: Iterable[Exemption], finding: str) -> str:
    """Return the faults under which this kind of finding is documented, as a cell of a table."""
    found = []
    for one in exemptions:
        if one.finding == finding:
            set_clock = f", if the clock is set {one.clock}" if one.clock else ""
            found.append(f"`{one.fault}`{set_clock}")
    return "; ".join(found) or "none"


def broken_locks_table() -> Iterator[str]:
    """Yield the table of the broken locks: each flaw, and what the challenge does to find it."""
    yield "| | flaw | found by | as | the fix |"
    yield "|---|---|---|---|---|"
    for flaw in FLAWS:
        plan = flaw.schedule
        found_by = ", ".join(f"`{kind}`" for kind in plan.faults) or "nothing but use"
        if plan.clocks_ahead:
            found_by = f"clocks {max(plan.clocks_ahead):g} s apart"
        yield row(str(flaw.number), flaw.flaw, found_by, flaw.kind, flaw.fix)


def source_of(lock: str) -> Iterator[str]:
    """Yield the source of a broken lock or a control: its section of locks.py, with imports."""
    tree = ast.parse(LOCKS)
    section = next(one for one in SECTIONS_OF_LOCKS if f"class {lock}(" in one)
    used = {one.id for one in ast.walk(ast.parse(section)) if isinstance(one, ast.Name)}
    typing_only = [one for one in tree.body if isinstance(one, ast.If)]
    typing = imported(typing_only[0].body, used)
    runtime = imported(tree.body, used | {"TYPE_CHECKING"} if typing else used)
    bases = [one for one in used if f"\nclass {one}(" in LOCKS and f"class {one}(" not in section]
    if bases:
        runtime.append(f"from lockfast_challenge.broken.locks import {', '.join(sorted(bases))}")
    yield "```python"
    yield from ("from __future__ import annotations", "", *runtime)
    if typing:
        yield from ("", "if TYPE_CHECKING:", *(f"    {one}" for one in typing))
    yield from ("", section.strip(), "```")


def imported(statements: list[ast.stmt], used: set[str]) -> list[str]:
    """Return the imports among some statements, reduced to the names that are used."""
    found = []
    for one in statements:
        if (
            isinstance(one, ast.Import | ast.ImportFrom)
            and getattr(one, "module", "") != "__future__"
        ):
            one.names = [alias for alias in one.names if (alias.asname or alias.name) in used]
            if one.names:
                found.append(wrapped(ast.unparse(one)))
    return found


def wrapped(statement: str) -> str:
    """Return an import as the formatter would write it."""
    if len(statement) <= LINE_LENGTH:
        return statement
    head, _, names = statement.partition(" import ")
    return "\n".join([f"{head} import (", *(f"    {one}," for one in names.split(", ")), ")"])


def polling_source() -> Iterator[str]:
    """Yield the source that all broken locks share."""
    yield "```python"
    yield (BROKEN / "polling.py").read_text(encoding="utf-8").rstrip()
    yield "```"


LOCKS = (BROKEN / "locks.py").read_text(encoding="utf-8")
SECTIONS_OF_LOCKS = re.split(r"\n(?=# (?:Broken|A control|The control): )", LOCKS)[1:]


SECTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "backends": backends_table,
    "backend-pages": backend_pages,
    "benchmark-pages": benchmark_pages,
    "capabilities": capabilities_table,
    "rooms": rooms_table,
    "errors-tree": errors_tree,
    "errors": errors_table,
    "faults": faults_table,
    "broken-locks": broken_locks_table,
    "lock-polling": polling_source,
    "mutants": mutants.table,
    "mutants-dates": mutants.dates,
    **{
        f"lock-{re.sub('(?<!^)(?=[A-Z])', '-', lock).lower()}": partial(source_of, lock)
        for lock in re.findall(r"^class (\w+)\(", LOCKS, re.MULTILINE)
    },
}


def row(*cells: str) -> str:
    """Return one line of a table."""
    return f"| {' | '.join(cells)} |"


def yes(value: object) -> str:
    """Return "yes" or "no"."""
    return "yes" if value else "no"


def generated(page: str) -> str:
    """Return the page with every section regenerated."""
    return SECTION.sub(
        lambda found: found["head"] + "\n".join(SECTIONS[found["name"]]()) + "\n" + found["foot"],
        page,
    )


# -- the demo's picture --------------------------------------------------------------------


def picture() -> None:
    """Play one story of the demo in a terminal and draw its output."""
    from rich.console import Console  # noqa: PLC0415 - only this needs the extra
    from rich.text import Text  # noqa: PLC0415 - as above

    console = Console(record=True, width=80, file=io.StringIO())
    console.print(Text.from_ansi(played("oversell")))
    drawn = console.export_svg(title="lockfast demo oversell", unique_id="demo")
    # An image loads no web fonts, and requesting them would only reveal the reader to a third
    # party.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    lines = [
        line.rstrip() for line in drawn.replace("Fira Code, monospace", "monospace").split("\n")
    ]
    path = ROOT / "docs" / "images" / "demo.svg"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(line for line in lines if line) + "\n", encoding="utf-8")
    print(f"drew {path.relative_to(ROOT)}")


def played(story: str) -> str:
    """Return what the demo writes to a terminal of 80 columns."""
    ours, its = pty.openpty()
    with tempfile.TemporaryDirectory() as state:
        process = subprocess.Popen(
            [sys.executable, "-m", "lockfast", "demo", story],
            stdin=its,
            stdout=its,
            stderr=subprocess.DEVNULL,  # stderr has the path of the temporary store
            env={**os.environ, "XDG_STATE_HOME": state, "COLUMNS": "80", "TERM": "xterm-256color"},
        )
        os.close(its)
        seen = b""
        try:
            while chunk := os.read(ours, 65536):
                seen += chunk
        except OSError:
            pass  # Linux raises this when the last writer has closed
        if process.wait():
            sys.exit("the demo went wrong; no picture was drawn")
    # A single story needs no table of all stories.
    return re.split(r"\n[^\n]*STORY", seen.decode().replace("\r\n", "\n"))[0].rstrip()


def main() -> None:
    """Run from the command line: write the generated sections, or compare them with the pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--picture", action="store_true", help="draw the demo's picture anew")
    arguments = parser.parse_args()
    if arguments.picture:
        picture()
        return
    stale = []
    for name in PAGES:
        path = ROOT / name
        old = path.read_text(encoding="utf-8")
        new = generated(old)
        if new != old:
            stale.append(name)
            if not arguments.check:
                path.write_text(new, encoding="utf-8")
    if arguments.check and stale:
        sys.exit(f"out of date: {', '.join(stale)}; run tools/generate_docs.py")
    if not arguments.check:
        print("\n".join(f"wrote {name}" for name in stale) or "nothing to write")


if __name__ == "__main__":
    main()
