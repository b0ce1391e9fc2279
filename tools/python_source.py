"""Reads the source of a module as tokens, which are the same on every Python version."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

MARKER = "# async only"
BEGIN = f"{MARKER}: begin"
END = f"{MARKER}: end"


class Unconvertible(Exception):
    """The source has no sync form; the message continues a sentence that begins with its path."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token with its own text; whatever lies between two tokens is layout."""

    kind: int
    text: str
    start: int
    end: int
    is_statement: bool = False
    """Whether the token is a whole statement, which makes a plain string a docstring."""


def tokens_of(source: str) -> list[Token]:
    """Return all tokens that have text. An f-string is a single token on every Python."""
    # str.splitlines would also break at form feeds, which tokenize does not.
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
        # Do not use the end that Python reports: 3.12.1 miscounts it after non-ASCII letters.
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
# These tokens exist from Python 3.12 on.
FSTRING_START = getattr(tokenize, "FSTRING_START", None)
FSTRING_END = getattr(tokenize, "FSTRING_END", None)


def _python_tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    """Tokenise as Python 3.11 does: an f-string is one string."""
    fstrings: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            # Up to Python 3.11 an unfinished string raises no exception, but yields an ERRORTOKEN.
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


def parsed(source: str, *, complaint: str) -> ast.Module:
    """Return the syntax tree of a source, or raise Unconvertible with the complaint."""
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise Unconvertible(f"{complaint}: {error.msg} (line {error.lineno})") from error


def without_async_only(source: str) -> str:
    """Return the source without the lines marked as asyncio only."""
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


def awaitables(tokens: Sequence[Token]) -> set[int]:
    """Return the indexes of the tokens around X in `Awaitable[X]` and `Coroutine[Any, Any, X]`."""
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


def redundant_parentheses(tokens: Sequence[Token], source: str) -> set[int]:
    """Return the parentheses of each `(await name(...))`, which are redundant without `await`.

    The formatter would keep `(name()).attribute`, which would puzzle readers of the sync tree.
    Anything other than a name with calls, attributes and subscripts keeps its parentheses.
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
    """Return whether a parenthesis after this token would be a call."""
    if index < 0:
        return False
    token = tokens[index]
    if token.kind == tokenize.NAME:
        return not keyword.iskeyword(token.text)
    return token.kind == tokenize.STRING or token.text in {")", "]", "}"}


def _primary_end(tokens: Sequence[Token], index: int) -> int | None:
    """Return the index of the last token of the name, with its trailers, that begins at `index`."""
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


def split_string(text: str) -> tuple[str, str, str]:
    """Return the prefix, the quote and the body of a string literal."""
    body = text.lstrip("rRbBuUfF")
    quote = body[:3] if body.startswith(('"""', "'''")) else body[:1]
    return text[: len(text) - len(body)], quote, body[len(quote) : -len(quote)]


def expression_end(body: str, position: int) -> int:
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
