"""Write the sync flavour of Holdfast from its async source, token by token.

The rules, all of them:

* The keywords ``async`` and ``await`` go; parentheses that only held an ``await`` go with them.
* A name in `RENAMES` becomes its twin. So it does as a whole word in comments and docstrings,
  and as a whole string literal, also dotted (``"AsyncLock"``, ``"holdfast._async.lock"``).
  No other string changes; in an f-string only the replacement fields are code.
* A name that begins with ``Async`` or is a method of asyncio's protocols needs a rule. Without
  one it is a fault: the sync tree would keep it unseen.
* ``Awaitable[X]`` and ``Coroutine[Any, Any, X]`` become ``X``.
* Prose keeps the words "async" and "await". They go only from code inside it: backticks, lines
  that begin with ``>>>`` or ``...``, fences, and blocks indented by four after a blank line.
* A line that ends in ``# async only`` goes, and so does all from a line ``# async only: begin``
  to a line ``# async only: end``. Use these sparingly: each is a place where the flavours
  drift apart unseen. A difference worth more than a line belongs into `holdfast.runtime`.

Then ruff formats the result, sorts its imports and drops those that only asyncio needed, so that
the output depends on nothing else.
All or nothing: where anything is wrong, each fault is one sentence and no file is written.
A file that no source generates is named and left for you to delete.
"""

from __future__ import annotations

import argparse
import ast
import io
import keyword
import re
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

TREES = tuple(
    (f"src/holdfast/{room}_async", f"src/holdfast/{room}_sync")
    for room in (
        "",
        "backends/memory/",
        "backends/redis/",
        "backends/sqlite/",
        "backends/zookeeper/",
        "testing/",
    )
)

RENAMES = {
    # The public classes.
    "AsyncAllOf": "AllOf",
    "AsyncBackend": "Backend",
    "AsyncLease": "Lease",
    "AsyncLock": "Lock",
    "AsyncLocks": "Locks",
    "AsyncRWLock": "RWLock",
    "AsyncSemaphore": "Semaphore",
    # What stands behind them.
    "AsyncAcquisition": "Acquisition",
    "AsyncAdoption": "Adoption",
    "AsyncClient": "Client",
    "AsyncOpenBlocks": "OpenBlocks",
    "AsyncDuty": "Duty",
    "AsyncFollowups": "Followups",
    "AsyncHandle": "Handle",
    "AsyncHold": "Hold",
    "AsyncHoldRegistry": "HoldRegistry",
    "AsyncHeartbeats": "Heartbeats",
    "AsyncInbox": "Inbox",
    "AsyncListening": "Listening",
    "AsyncMemoryBackend": "MemoryBackend",
    "AsyncRecipe": "Recipe",
    "AsyncLooking": "Looking",
    "AsyncInspecting": "Inspecting",
    "AsyncRedisBackend": "RedisBackend",
    "AsyncSession": "Session",
    "AsyncSingleFlight": "SingleFlight",
    "AsyncSqliteBackend": "SqliteBackend",
    "AsyncWakeups": "Wakeups",
    "AsyncWatchdog": "Watchdog",
    "AsyncZooKeeperBackend": "ZooKeeperBackend",
    # The contract.
    "AsyncBackendContract": "BackendContract",
    "AsyncFaultyBackend": "FaultyBackend",
    "AsyncLawsOfFailing": "LawsOfFailing",
    "AsyncLawsOfHandingOver": "LawsOfHandingOver",
    "AsyncLawsOfHolding": "LawsOfHolding",
    "AsyncLawsOfLiving": "LawsOfLiving",
    "AsyncLawsOfTelling": "LawsOfTelling",
    "AsyncSubject": "Subject",
    # Python's own pairs.
    "AsyncIterator": "Iterator",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "push_async_callback": "callback",
    "push_async_exit": "push",
    # Where things live.
    "_async": "_sync",
    "aio": "threads",
}

# Python calls these in asyncio only, so a sync class that kept one would silently lack its twin.
ASYNC_METHODS = {"__aenter__", "__aexit__", "__aiter__", "__anext__"}

HEADER = """\
# Generated from {source} by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""

MARKER = "# async only"
BEGIN = f"{MARKER}: begin"
END = f"{MARKER}: end"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; the exit code is 1 when something is wrong."""
    parser = argparse.ArgumentParser(description="Write the sync flavour from the async source.")
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    check = parser.parse_args(arguments).check

    root = Path(__file__).resolve().parent.parent
    faults = generate(root, trees=TREES, renames=RENAMES, check=check)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def generate(
    root: Path,
    *,
    trees: Sequence[tuple[str, str]],
    renames: Mapping[str, str],
    check: bool = False,
) -> list[str]:
    """Bring the output trees up to date and return what is wrong, a sentence for each fault.

    With `check` nothing is written, and an output that would change is a fault too.
    """
    flavour = Flavour(renames)
    faults: list[str] = []
    outputs: dict[Path, str] = {}
    unreadable = False
    for source_tree, output_tree in trees:
        if not (root / source_tree).is_dir():
            faults.append(f"The source tree {source_tree} does not exist.")
        for source in sorted((root / source_tree).rglob("*.py")):
            name = source.relative_to(root).as_posix()
            output = root / output_tree / source.relative_to(root / source_tree)
            try:
                outputs[output] = HEADER.format(source=name) + flavour.module(_read(source))
            except Unconvertible as error:
                faults.append(f"{name} {error}.")
                unreadable = True
                outputs[output] = ""
        faults += _strays(root, output_tree, expected=outputs)
    # After a source that could not be read nobody knows which rules it would have used.
    if not unreadable:
        faults += flavour.unused()
    if faults:
        return faults

    outputs = _tidied(outputs, root=root)
    changed = [path for path, text in outputs.items() if not path.exists() or _read(path) != text]
    if check:
        return [
            f"{path.relative_to(root).as_posix()} is not what its source generates: "
            "run `make generate`."
            for path in changed
        ]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(outputs[path], encoding="utf-8", newline="\n")
    return []


class Unconvertible(Exception):
    """A source has no sync form; the message continues a sentence that begins with its path."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token with text of its own; layout is what lies between two of them."""

    kind: int
    text: str
    start: int
    end: int
    is_statement: bool = False
    """It is a statement by itself, which makes a plain string a docstring."""


class Flavour:
    """The rename table at work. It remembers which of its rules were of use."""

    def __init__(self, renames: Mapping[str, str]) -> None:
        self._renames = renames
        self._used: set[str] = set()

    def unused(self) -> list[str]:
        """Return a sentence for each rule that nothing used."""
        return [
            f"The rename rule {old} -> {new} is used by no source: delete it from RENAMES."
            for old, new in self._renames.items()
            if old not in self._used
        ]

    def module(self, source: str) -> str:
        """Return the sync form of a module."""
        kept = _without_async_only(source)
        _parse(source, "is not valid Python")
        result = self._code(kept)
        _parse(result, "has a sync form that is not valid Python")
        return result

    def _identifier(self, name: str) -> str:
        needs_rule = name.startswith("Async") or name in ASYNC_METHODS
        if needs_rule and name not in self._renames:
            raise Unconvertible(f"uses {name}, which has no rule: add it to RENAMES")
        return self._name(name)

    def _name(self, name: str) -> str:
        if name not in self._renames:
            return name
        self._used.add(name)
        return self._renames[name]

    def _code(self, source: str) -> str:
        tokens = _tokens(source)
        dropped = _redundant_parentheses(tokens, source) | _awaitables(tokens)
        pieces: list[str] = []
        position = 0
        after_keyword = False
        for index, token in enumerate(tokens):
            gap = source[position : token.start]
            # The space behind a keyword goes with it. A line break stays, unless it is escaped.
            if not after_keyword or "\n" in gap.replace("\\\n", ""):
                pieces.append(gap)
            after_keyword = token.kind == tokenize.NAME and token.text in {"async", "await"}
            if not after_keyword and index not in dropped:
                pieces.append(self._token(token))
            position = token.end
        pieces.append(source[position:])
        return "".join(pieces)

    def _token(self, token: Token) -> str:
        if token.kind == tokenize.NAME:
            return self._identifier(token.text)
        if token.kind == tokenize.COMMENT:
            return self._prose(token.text)
        if token.kind == tokenize.STRING:
            is_docstring = token.is_statement and token.text[0] not in "fFbB"
            return self._docstring(token.text) if is_docstring else self._string(token.text)
        return token.text

    # Strings.

    def _string(self, text: str) -> str:
        prefix, quote, body = _split_string(text)
        if "f" in prefix.lower():
            body = self._fields(body, raw="r" in prefix.lower())
        elif "b" not in prefix.lower():
            parts = body.split(".")
            if all(part.isidentifier() for part in parts):
                body = ".".join(map(self._name, parts))
        return prefix + quote + body + quote

    def _fields(self, body: str, *, raw: bool) -> str:
        """Convert the replacement fields of an f-string.

        Python 3.12 tokenises them and 3.11 does not, so we do it ourselves on every version.
        """
        pieces: list[str] = []
        position = 0
        while position < len(body):
            end = position + 1
            if body.startswith(("{{", "}}"), position):
                end = position + 2
            elif not raw and body.startswith("\\N{", position):
                end = body.index("}", position) + 1
            elif not raw and body[position] == "\\":
                end = position + 2
            elif body[position] == "{":
                end, field = self._field(body, position)
                pieces.append(field)
                position = end
                continue
            pieces.append(body[position:end])
            position = end
        return "".join(pieces)

    def _field(self, body: str, start: int) -> tuple[int, str]:
        """Return where the field ends that begins at `start`, and its sync form."""
        position = _expression_end(body, start + 1)
        # Brackets let the expression span lines; parentheses could be taken for redundant ones.
        pieces = ["{", self._code(f"[{body[start + 1 : position]}]")[1:-1]]
        while body[position] != "}":
            # A conversion, and a format that may hold fields of its own.
            end, piece = position + 1, body[position]
            if piece == "{":
                end, piece = self._field(body, position)
            pieces.append(piece)
            position = end
        return position + 1, "".join(pieces) + "}"

    # Prose: the only place for regular expressions, since it has no grammar.

    def _prose(self, text: str) -> str:
        renamed = _WORDS.sub(self._word, text)
        return _BACKTICKS.sub(lambda span: _without_keywords(span[0]), renamed)

    def _word(self, match: re.Match[str]) -> str:
        article, space, old = match.groups(default="")
        new = self._name(old)
        # "an AsyncLock" is "a Lock", but "an AsyncRWLock" is "an RWLock".
        needs_n = new == old or new[0] in "AEIOUaeiou" or new[1:2].isupper()
        return (article if needs_n else article[:1]) + space + new

    def _docstring(self, text: str) -> str:
        lines = self._prose(text).split("\n")
        is_code = _code_lines(lines)
        return "\n".join(
            _without_keywords(line) if code else line
            for line, code in zip(lines, is_code, strict=True)
        )


_WORDS = re.compile(r"(?:\b([Aa]n)(\s+`*))?(\w+)")
_BACKTICKS = re.compile(r"(?<!`)(`{1,2})(?!`)(?:(?!\n\s*\n)[^`])+\1(?!`)")


def _without_keywords(code: str) -> str:
    return re.sub(r"\b(?:async|await) +(?=\S)", "", code)


def _code_lines(lines: Sequence[str]) -> Iterator[bool]:
    """Say of each line of a docstring whether it is code."""
    indents = [len(line) - len(line.lstrip()) for line in lines]
    margin = min(
        (i for i, line in zip(indents[1:], lines[1:], strict=True) if line.strip()), default=0
    )
    fenced = in_block = False
    after_blank = False
    for indent, line in zip(indents, lines, strict=True):
        stripped = line.strip()
        if stripped.startswith("```"):
            fenced = not fenced
        if stripped:
            in_block = indent >= margin + 4 and (after_blank or in_block)
        after_blank = not stripped
        yield fenced or in_block or stripped.startswith((">>>", "..."))


def _tokens(source: str) -> list[Token]:
    """Return all tokens that have text. An f-string is one of them on every Python."""
    # str.splitlines would also break at form feeds, where tokenize sees no new line.
    line_starts = [0]
    for line in io.StringIO(source):
        line_starts.append(line_starts[-1] + len(line))

    found: list[Token] = []
    statement: list[int] = []
    for kind, text, (row, column), _, _ in _python_tokens(source):
        if kind == tokenize.NEWLINE:
            if len(statement) == 1:
                found[statement[0]] = replace(found[statement[0]], is_statement=True)
            statement.clear()
        if kind in LAYOUT:
            continue
        if kind != tokenize.COMMENT:
            statement.append(len(found))
        # Not the end that Python names: 3.12.1 miscounts it after letters beyond ASCII.
        start = line_starts[row - 1] + column
        found.append(Token(kind, text, start, start + len(text)))
    return found


LAYOUT = {
    tokenize.NEWLINE,
    tokenize.NL,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
# From Python 3.12 on; before, no token is of these kinds.
FSTRING_START = getattr(tokenize, "FSTRING_START", None)
FSTRING_END = getattr(tokenize, "FSTRING_END", None)


def _python_tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    """Tokenise as Python 3.11 does: an f-string is one string."""
    fstrings: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            # Up to 3.11 an unfinished string is not an exception but a token of this kind.
            if token.type == tokenize.ERRORTOKEN:
                complaint = f"line {token.start[0]} has a stray {token.string!r}"
                raise Unconvertible(f"does not tokenise: {complaint}")
            if token.type == FSTRING_START:
                fstrings.append(token)
            elif token.type == FSTRING_END:
                opening = fstrings.pop()
                if not fstrings:
                    text = _between(source, opening, token)
                    yield opening._replace(type=tokenize.STRING, string=text, end=token.end)
            elif not fstrings:
                yield token
    except (tokenize.TokenError, SyntaxError) as error:
        raise Unconvertible(f"does not tokenise: {error.args[0]}") from error


def _between(source: str, first: tokenize.TokenInfo, last: tokenize.TokenInfo) -> str:
    lines = source.split("\n")[first.start[0] - 1 : last.end[0]]
    lines[-1] = lines[-1][: last.end[1]]
    lines[0] = lines[0][first.start[1] :]
    text = "\n".join(lines)
    if not text.endswith(last.string):
        raise Unconvertible(f"does not tokenise: Python misplaces the end of line {last.end[0]}")
    return text


def _parse(source: str, complaint: str) -> None:
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise Unconvertible(f"{complaint}: {error.msg} (line {error.lineno})") from error


def _without_async_only(source: str) -> str:
    """Return the source without the lines that its markers give to asyncio alone."""
    dropped: set[int] = set()
    begun: int | None = None
    for token in _python_tokens(source):
        if token.type != tokenize.COMMENT:
            continue
        row, text = token.start[0], token.string
        if text == BEGIN and begun is None:
            begun = row
        elif text == END and begun is not None:
            dropped.update(range(begun, row + 1))
            begun = None
        elif text in {BEGIN, END}:
            raise Unconvertible(f"has a `{text}` without its partner in line {row}")
        elif text.endswith(MARKER):
            dropped.add(row)
    if begun is not None:
        raise Unconvertible(f"has a `{BEGIN}` without its partner in line {begun}")
    lines = enumerate(io.StringIO(source), start=1)
    return "".join(line for row, line in lines if row not in dropped)


def _awaitables(tokens: Sequence[Token]) -> set[int]:
    """Return what stands around the X of each `Awaitable[X]` and `Coroutine[Any, Any, X]`."""
    dropped: set[int] = set()
    for index, token in enumerate(tokens[:-1]):
        if token.text not in {"Awaitable", "Coroutine"} or tokens[index + 1].text != "[":
            continue
        depth = 0
        commas = [index + 1]
        for inner in range(index + 1, len(tokens)):
            depth += {"[": 1, "]": -1}.get(tokens[inner].text, 0)
            if depth == 1 and tokens[inner].text == ",":
                commas.append(inner)
            if depth == 0:
                dropped |= {*range(index, commas[2 if token.text == "Coroutine" else 0] + 1), inner}
                break
    return dropped


def _redundant_parentheses(tokens: Sequence[Token], source: str) -> set[int]:
    """Return the parentheses of each `(await name(...))`, which need none without the keyword.

    The formatter keeps `(name()).attribute` as it is, and a reader of the sync tree would
    wonder. Whatever is not plainly a name with calls, attributes and subscripts keeps them.
    """
    dropped: set[int] = set()
    for index in range(len(tokens) - 2):
        opening, awaiting = tokens[index], tokens[index + 1]
        if opening.text != "(" or awaiting.text != "await" or _is_callee(tokens, index - 1):
            continue
        last = _primary_end(tokens, index + 2)
        if last is None or last + 1 >= len(tokens) or tokens[last + 1].text != ")":
            continue
        closing = tokens[last + 1]
        around = source[max(opening.start - 1, 0) : opening.start] + source[closing.end :][:1]
        glues = any(character.isalnum() or character in "_'\"" for character in around)
        if not glues and "\n" not in source[opening.start : closing.end]:
            dropped |= {index, last + 1}
    return dropped


def _is_callee(tokens: Sequence[Token], index: int) -> bool:
    """Say whether a parenthesis behind this token would be a call."""
    if index < 0:
        return False
    token = tokens[index]
    if token.kind == tokenize.NAME:
        return not keyword.iskeyword(token.text)
    return token.kind == tokenize.STRING or token.text in {")", "]", "}"}


def _primary_end(tokens: Sequence[Token], index: int) -> int | None:
    """Return the last token of the name, with its trailers, that begins at `index`."""
    if tokens[index].kind != tokenize.NAME or keyword.iskeyword(tokens[index].text):
        return None
    while index + 1 < len(tokens):
        following = tokens[index + 1].text
        if following == ".":
            index += 2
        elif following in {"(", "["}:
            index += 1
            depth = 1
            while depth and index + 1 < len(tokens):
                index += 1
                if tokens[index].kind == tokenize.OP:
                    depth += (tokens[index].text in {"(", "[", "{"}) - (
                        tokens[index].text in {")", "]", "}"}
                    )
        else:
            break
    return index


def _split_string(text: str) -> tuple[str, str, str]:
    """Return the prefix, the quote and the body of a string literal."""
    body = text.lstrip("rRbBuUfF")
    quote = body[:3] if body.startswith(('"""', "'''")) else body[:1]
    return text[: len(text) - len(body)], quote, body[len(quote) : -len(quote)]


def _expression_end(body: str, position: int) -> int:
    """Return where the expression of a replacement field ends: at its `!`, `:` or `}`."""
    depth = 0
    while True:
        character = body[position]
        if character in "'\"":
            quote = character * 3 if body.startswith(character * 3, position) else character
            position = body.index(quote, position + len(quote)) + len(quote)
        elif body.startswith("!=", position):
            position += 2
        elif depth == 0 and character in "!:}":
            return position
        else:
            depth += (character in "([{") - (character in ")]}")
            position += 1


def _strays(root: Path, output_tree: str, *, expected: Mapping[Path, str]) -> list[str]:
    return [
        f"{path.relative_to(root).as_posix()} has no source: delete it."
        for path in sorted((root / output_tree).rglob("*"))
        if path.is_file() and path not in expected and "__pycache__" not in path.parts
    ]


def _tidied(outputs: Mapping[Path, str], *, root: Path) -> dict[Path, str]:
    """Tidy the imports and format, by the settings of the project.

    The files are tidied elsewhere, so that nobody ever imports one that is half done.
    """
    settings = root / "pyproject.toml"
    config = ["--config", str(settings)] if settings.exists() else ["--isolated"]
    with tempfile.TemporaryDirectory() as directory:
        drafts = {path: Path(directory, path.relative_to(root)) for path in outputs}
        for path, draft in drafts.items():
            draft.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(outputs[path], encoding="utf-8", newline="\n")
        for command in (["check", "--select", "I,F401", "--fix-only"], ["format"]):
            subprocess.run(
                [sys.executable, "-m", "ruff", *command, *config, "--quiet", "--no-cache"]
                + [str(draft) for draft in drafts.values()],
                check=True,
                cwd=root,
            )
        return {path: _read(draft) for path, draft in drafts.items()}


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
