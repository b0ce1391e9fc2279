"""What a driver has said, inside the error of the library around it.

The caller's own code may raise in between, and whatever it likes: only a driver's error is read as
one, by where its class stands.
"""

from __future__ import annotations


def drivers_own(error: BaseException) -> BaseException:
    """Return the driver's error, or what was given if there is none inside."""
    error = getattr(error, "orig", None) or error  # SQLAlchemy has it inside its own
    if library_of(error) == "django" and isinstance(error.__cause__, Exception):
        return error.__cause__
    return error


def library_of(error: BaseException) -> str:
    """Return the package that its class stands in."""
    return type(error).__module__.partition(".")[0]


def mysql_number(error: BaseException) -> int | None:
    """Return the number that MySQL says first, if it was MySQL that spoke."""
    if library_of(error) not in {"pymysql", "asyncmy"} or not error.args:
        return None
    number = error.args[0]
    return number if isinstance(number, int) else None
