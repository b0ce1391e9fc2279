"""The entry point of `lockfast` and `python -m lockfast`.

It reports a missing requirement before it loads anything that depends on that requirement. For the
same reason, its top level imports none of our modules, and older Python versions can still parse
this file.
"""

import sys

CONFIGURATION = 78


def main() -> int:
    """Run the command line, or print in one line what is missing; return the exit code."""
    complaint = missing()
    if complaint:
        sys.stderr.write(f"lockfast: {complaint}\n")
        return CONFIGURATION
    from lockfast.cli import app  # noqa: PLC0415 - click and rich may be missing above

    return app.main()


def missing() -> str:
    """Return a sentence that names what is missing and how to get it, or "" if all is there."""
    if sys.version_info < (3, 11):  # noqa: UP036 - an older Python should print the sentence
        have = ".".join(map(str, sys.version_info[:2]))
        return f"needs Python 3.11 or newer, and this is {have}: start it with a newer one"
    from importlib.util import find_spec  # noqa: PLC0415 - not in every older Python

    if any(find_spec(name) is None for name in ("click", "rich")):
        from lockfast.errors import pip_install  # noqa: PLC0415 - an older Python cannot parse it

        return f"the command line is an extra: {pip_install('cli')}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
