"""The sync form of one module: keywords are removed, names change, everything else stays.

The rules are in `generate_sync.py`.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Collection, Iterator, Mapping, Sequence

from async_names import Names
from python_source import (
    Token,
    awaitables,
    expression_end,
    parsed,
    redundant_parentheses,
    split_string,
    tokens_of,
    without_async_only,
)


class SyncForm:
    """Applies the rules, and remembers which of the pairs in PAIRS were used."""

    def __init__(self, *, ours: Collection[str], pairs: Mapping[str, str]) -> None:
        self._ours = ours
        self._pairs = pairs
        self._used: set[str] = set()

    def unused(self) -> list[str]:
        """Return a sentence for each pair in PAIRS that was never used."""
        return [
            f"The pair {old} -> {new} is used by no source: delete it from PAIRS."
            for old, new in self._pairs.items()
            if old not in self._used
        ]

    def module(self, source: str) -> str:
        """Return the sync form of a module."""
        kept = without_async_only(source)
        parsed(source, complaint="is not valid Python")
        tree = parsed(kept, complaint="has a sync form that is not valid Python")
        names = Names(tree, ours=self._ours, pairs=self._pairs)
        result = _Module(names).code(kept)
        parsed(result, complaint="has a sync form that is not valid Python")
        self._used |= names.used
        return result


class _Module:
    """One module during its conversion."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def code(self, source: str) -> str:
        tokens = tokens_of(source)
        paths = self._names.paths(tokens)
        dropped = redundant_parentheses(tokens, source) | awaitables(tokens)
        pieces: list[str] = []
        position = 0
        after_keyword = False
        for index, token in enumerate(tokens):
            gap = source[position : token.start]
            # The space after a keyword is removed with it. A line break stays, unless it is
            # escaped.
            if not after_keyword or "\n" in gap.replace("\\\n", ""):
                pieces.append(gap)
            after_keyword = token.kind == tokenize.NAME and token.text in {"async", "await"}
            if not after_keyword and index not in dropped:
                pieces.append(paths.get(index) or self._token(token))
            position = token.end
        pieces.append(source[position:])
        return "".join(pieces)

    def _token(self, token: Token) -> str:
        if token.kind == tokenize.NAME:
            return self._names.identifier(token.text)
        if token.kind == tokenize.COMMENT:
            return self._prose(token.text)
        if token.kind == tokenize.STRING:
            is_docstring = token.is_statement and token.text[0] not in "fFbB"
            return self._docstring(token.text) if is_docstring else self._string(token.text)
        return token.text

    # Strings.

    def _string(self, text: str) -> str:
        prefix, quote, body = split_string(text)
        if "f" in prefix.lower():
            body = self._fields(body, raw="r" in prefix.lower())
        elif "b" not in prefix.lower():
            body = self._names.literal(body)
        return prefix + quote + body + quote

    def _fields(self, body: str, *, raw: bool) -> str:
        """Convert the replacement fields of an f-string.

        Python 3.12 tokenises them and 3.11 does not, so we parse them ourselves on every version.
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
        """Return the end of the field that begins at `start`, and its sync form."""
        position = expression_end(body, start + 1)
        # Brackets let the expression span lines; parentheses might be dropped as redundant.
        pieces = ["{", self.code(f"[{body[start + 1 : position]}]")[1:-1]]
        while body[position] != "}":
            # A conversion, and a format that may contain fields of its own.
            end, piece = position + 1, body[position]
            if piece == "{":
                end, piece = self._field(body, position)
            pieces.append(piece)
            position = end
        return position + 1, "".join(pieces) + "}"

    # Prose. Regular expressions are used only in this part, because prose has no grammar.

    def _prose(self, text: str) -> str:
        text = _PATHS.sub(lambda path: self._names.literal(path[0]), text)
        renamed = _WORDS.sub(self._word, text)
        return _BACKTICKS.sub(lambda span: _without_keywords(span[0]), renamed)

    def _word(self, match: re.Match[str]) -> str:
        article, space, old = match.groups(default="")
        new = self._names.word(old)
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


_PATHS = re.compile(r"\blockfast(?:\.\w+)+")
_WORDS = re.compile(r"(?:\b([Aa]n)(\s+`*))?(\w+)")
_BACKTICKS = re.compile(r"(?<!`)(`{1,2})(?!`)(?:(?!\n\s*\n)[^`])+\1(?!`)")


def _without_keywords(code: str) -> str:
    return re.sub(r"\b(?:async|await) +(?=\S)", "", code)


def _code_lines(lines: Sequence[str]) -> Iterator[bool]:
    """Yield for each line of a docstring whether it is code."""
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
