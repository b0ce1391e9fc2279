"""A lock that `--lock module:Class` names: how it is found and checked, and what it offers."""

from __future__ import annotations

import importlib
import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lockfast import ConfigurationError
from lockfast_challenge.broken.registry import FLAWS
from lockfast_challenge.contender import accepted
from lockfast_challenge.outcome import MIXED, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

GUARDED = "guarded-"
SHARED_KINDS = {"read-write", "semaphore"}


BROKEN = [flaw.name for flaw in FLAWS]


def known_lock(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the value of `--lock`; fail if it is no name of a broken lock and names no class."""
    if value is None or is_class(value):
        return value
    return str(click.Choice(BROKEN).convert(value, param, ctx))


def broken_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the broken locks for shell completion."""
    del ctx, param
    return [one for one in BROKEN if one.startswith(incomplete)]


def is_class(lock: str | None) -> bool:
    """Return whether the value of `--lock` names a class."""
    return lock is not None and ":" in lock


@dataclass(frozen=True, slots=True)
class LockClass:
    """A contender class that the user named."""

    dotted: str
    workloads: tuple[str, ...]
    """The workloads of a run without `--workload`."""

    def check_workload(self, workload: str | None) -> None:
        """Raise ConfigurationError if the class lacks what the requested workload needs."""
        if workload is None or WORKLOADS[workload].kind not in SHARED_KINDS:
            return
        if not SHARED_KINDS & {WORKLOADS[one].kind for one in self.workloads}:
            raise ConfigurationError(
                f"--workload {workload} lets several clients in at once, for which {self.dotted} "
                "would need a method acquire_share: choose another workload, such as lock"
            )


def found(dotted: str) -> LockClass:
    """Return the class with this name, imported from the current directory too.

    The current directory comes first on the module path, as with `python -m`, and stays there, so
    that the clients find the class in the same place.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module, _, name = dotted.partition(":")
    make = _in_module(module, name, dotted)
    _check_members(make, dotted)
    return LockClass(dotted, tuple(_offered(make)))


def _in_module(module: str, name: str, dotted: str) -> Any:  # noqa: ANN401 - whatever is there
    if not (module and name):
        raise ConfigurationError(
            f"--lock {dotted} lacks the module or the class: write it as module:Class"
        )
    try:
        there = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # an import inside the module failed
            raise _not_imported(module, error) from error
        raise ConfigurationError(
            f"--lock {dotted}: there is no module {module!r} in {Path.cwd()} or among the "
            "installed packages: run the command in the folder that contains it"
        ) from error
    # The module may do anything when it is imported, even end the program.
    except (Exception, SystemExit) as error:
        raise _not_imported(module, error) from error
    make = getattr(there, name, None)
    if not inspect.isclass(make):
        classes = [one for one, value in vars(there).items() if _is_contender(value)]
        hint = f"; it has {', '.join(classes)}" if classes else ""
        raise ConfigurationError(f"--lock {dotted}: {module} has no class {name!r}{hint}")
    return make


def _not_imported(module: str, error: BaseException) -> ConfigurationError:
    return ConfigurationError(
        f"--lock: the module {module!r} cannot be imported "
        f"({type(error).__name__}: {error}): run it with Python to see the whole error"
    )


def _is_contender(value: object) -> bool:
    return inspect.isclass(value) and callable(getattr(value, "acquire", None))


def _check_members(make: Any, dotted: str) -> None:  # noqa: ANN401 - a class of any library
    """Raise ConfigurationError unless a client can make a contender and call its `acquire`."""
    if not _is_contender(make):
        raise ConfigurationError(
            f"--lock {dotted}: the class has no method acquire(name, timeout), which returns the "
            "held lock or None"
        )
    try:
        inspect.signature(make).bind("url", **accepted(make, ttl=1.0, clock_ahead=0.0))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"--lock {dotted}: the class cannot be called as {make.__name__}(url, ttl=seconds) "
            f"({error}); `ttl` may be left out"
        ) from error
    try:
        inspect.signature(make.acquire).bind(None, "name", timeout=1.0)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"--lock {dotted}: its method cannot be called as acquire(name, timeout=seconds) "
            f"({error})"
        ) from error


def _offered(make: Any) -> Sequence[str]:  # noqa: ANN401 - a class of any library
    """Return the usual mixture without what needs more than this class has.

    Tokens that a lock does not have are no accusation, and neither is work that outlasts a lease
    that nobody renews.
    """
    names: tuple[str, ...] = MIXED
    if not getattr(make, "has_tokens", False):
        names = tuple(one.removeprefix(GUARDED) for one in names)
    if not hasattr(make, "acquire_share"):
        names = tuple(one for one in names if WORKLOADS[one].kind not in SHARED_KINDS)
    if not getattr(make, "is_renewed", True):
        names = tuple(one for one in names if not WORKLOADS[one].long)
    return names
