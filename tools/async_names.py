"""Decides what each name is called in the sync flavour, by who defines the name.

A name `Async…` that one of our sources defines is ours and loses the prefix. Python's own pairs of
names are in a table. Any other name `Async…` is an error, because the sync tree would be wrong
either way: if the name were kept, the sync code would call an asyncio library and never await it;
if the name were changed, the sync code would look for something that the library does not have.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from python_source import Token, Unconvertible

PAIRS = {
    "AsyncIterator": "Iterator",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
    "push_async_callback": "callback",
    "push_async_exit": "push",
}
"""Names of Python's own that come in pairs: async, and sync."""

TWINS = {"_async": "_sync", "aio": "threads"}
"""Modules and folders of Lockfast, and their sync counterparts; see also `twin_of`."""

# Python calls these methods only in async code, so a sync class that kept such a method would
# silently lack the sync counterpart.
ASYNC_METHODS = {"__aenter__", "__aexit__", "__aiter__", "__anext__"}

# A component of a third-party module path that marks it as asyncio only.
FOREIGN_ASYNCIO = {"aio", "asyncio", "_async"}

_IS_ASYNC = re.compile(r"Async(?=[A-Z])")


def defined_in(sources: Iterable[str]) -> frozenset[str]:
    """Return every name `Async…` that one of the sources defines.

    A source that is not valid Python defines nothing here; converting it reports the error.
    """
    found: set[str] = set()
    for source in sources:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        found |= {name for name in _bound(tree, by_import=False) if _IS_ASYNC.match(name)}
    return frozenset(found)


def twin_of(module: str) -> str | None:
    """Return the sync counterpart of a module or folder: `x_threads` for `x_aio`, for example."""
    if module.endswith("_aio"):
        return module.removesuffix("aio") + TWINS["aio"]
    return TWINS.get(module)


class Names:
    """The names of one module, and the sync form of each name."""

    def __init__(
        self, tree: ast.Module, *, ours: Collection[str], pairs: Mapping[str, str]
    ) -> None:
        self.used: set[str] = set()
        self._pairs = pairs
        self._ours = ours
        self._foreign = dict(_foreign_imports(tree))
        self._modules = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and _is_ours(node)
            for alias in node.names
            if twin_of(alias.name) and alias.asname is None
        }
        self._refuse_foreign_asyncio(tree)
        self._refuse_taken(tree)

    def identifier(self, name: str) -> str:
        """Return the sync form of a name in code."""
        if name in self._modules:
            return twin_of(name) or name
        is_known = name in self._pairs or name in self._ours
        if not is_known and (_IS_ASYNC.match(name) or name in ASYNC_METHODS):
            raise Unconvertible(
                f"uses {name}, which no `_async` folder defines: "
                "a pair of Python's own belongs into PAIRS"
            )
        return self._renamed(name)

    def word(self, name: str) -> str:
        """Return the sync form of a word in prose, where an unknown name is just a word."""
        return TWINS[name] if name == "_async" else self._renamed(name)

    def literal(self, text: str) -> str:
        """Return the sync form of a string that may be a name, possibly dotted."""
        root, *rest = text.split(".")
        if not all(part.isidentifier() for part in (root, *rest)) or root in self._foreign:
            return text
        if not rest:
            return self.word(root)
        is_ours = root == "lockfast"
        return ".".join(
            (is_ours and twin_of(part)) or self._renamed(part) for part in (root, *rest)
        )

    def paths(self, tokens: Sequence[Token]) -> dict[int, str]:
        """Return, by index, the sync form of each token that names a Lockfast module.

        A token that only looks as if it named a Lockfast module is returned unchanged.
        """
        modules = set(_modules_of_lockfast(tokens))
        found: dict[int, str] = {}
        for index, token in enumerate(tokens):
            twin = twin_of(token.text)
            if twin and index in modules:
                found[index] = twin
            elif twin and index and tokens[index - 1].text == ".":
                # This is an attribute of a foreign object, even if a module of that name was
                # imported.
                found[index] = token.text
        return found

    def _renamed(self, name: str) -> str:
        if name in self._pairs:
            self.used.add(name)
            return self._pairs[name]
        return name.removeprefix("Async") if name in self._ours else name

    def _refuse_foreign_asyncio(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._refuse(alias.name.split("."))
            elif isinstance(node, ast.ImportFrom) and not _is_ours(node):
                for alias in node.names:
                    self._refuse([*(node.module or "").split("."), alias.name])
            elif isinstance(node, ast.Attribute):
                path = list(_chain(node))
                if path and path[0] in self._foreign:
                    self._refuse([*self._foreign[path[0]].split("."), *path[1:]])

    def _refuse(self, path: Sequence[str]) -> None:
        if path[0] == "lockfast":
            return
        for part in path:
            is_asyncio = part in FOREIGN_ASYNCIO or _IS_ASYNC.match(part)
            if is_asyncio and part not in self._pairs:
                what = part if part == path[0] else f"{part} of {path[0]}"
                raise Unconvertible(
                    f"uses {what}, which has no sync twin: reach it through a "
                    "hand-written pair (aio.py and threads.py), or mark the line `# async only`"
                )

    def _refuse_taken(self, tree: ast.Module) -> None:
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        bound = set(_bound(tree, by_import=True))
        for name in sorted((names | bound) & set(self._ours)):
            if self._renamed(name) in bound:
                raise Unconvertible(
                    f"uses {name}, whose sync form {self._renamed(name)} it uses for something "
                    "else: rename one of them"
                )


def _bound(tree: ast.Module, *, by_import: bool) -> Iterator[str]:
    """Yield every name that a module binds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif by_import and isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)


def _foreign_imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each name that a third-party import binds, with the import path behind the name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                if root != "lockfast":
                    yield alias.asname or root, alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom) and not _is_ours(node):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _is_ours(node: ast.ImportFrom) -> bool:
    return node.level > 0 or (node.module or "").partition(".")[0] == "lockfast"


def _chain(node: ast.expr) -> Iterator[str]:
    """Yield the names of `a.b.c`, or nothing if the expression does not begin with a name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        yield from (node.id, *reversed(names))


def _modules_of_lockfast(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the tokens that name a Lockfast module, in an import or in a dotted path."""
    for index, token in enumerate(tokens):
        if token.text == "from":
            yield from _imported(tokens, index)
        elif token.text == "lockfast" and (not index or tokens[index - 1].text != "."):
            yield from _dotted(tokens, index)


def _imported(tokens: Sequence[Token], start: int) -> Iterator[int]:
    """Yield the names between `from` and the end of an import from Lockfast, without aliases."""
    index = start + 1
    while index < len(tokens) and (
        tokens[index].kind == tokenize.NAME or set(tokens[index].text) == {"."}
    ):
        if tokens[index].text == "import":
            break
        index += 1
    else:
        return  # `raise … from …` and `yield from …`
    if tokens[start + 1].text != "lockfast" and tokens[start + 1].text[0] != ".":
        return
    yield from range(start + 1, index)
    index += 1
    if index < len(tokens) and tokens[index].text == "(":
        index += 1
    while index < len(tokens) and tokens[index].kind in {tokenize.NAME, tokenize.COMMENT}:
        if tokens[index].kind == tokenize.COMMENT:
            index += 1
            continue
        yield index
        if index + 1 < len(tokens) and tokens[index + 1].text == "as":
            index += 2
        if index + 1 >= len(tokens) or tokens[index + 1].text != ",":
            return
        index += 2


def _dotted(tokens: Sequence[Token], start: int) -> Iterator[int]:
    """Yield the names of a dotted path."""
    yield start
    index = start + 1
    while index + 1 < len(tokens) and tokens[index].text == ".":
        yield index + 1
        index += 2
