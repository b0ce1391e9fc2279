"""Whatever breaks a law is caught by that law's tests, and by no other tests.

A contract that accepted these subjects would mean nothing.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from contract.broken import LAWS, TELLING, Whole


def laws_that_fail(subject: type[Whole]) -> set[int]:
    """Return the numbers of the laws whose tests fail."""
    failed = set()
    for name in dir(subject):
        law = re.match(r"test_law_(\d\d)_", name)
        if law is None or int(law[1]) in failed:
            continue
        try:
            getattr(subject(), name)()
        except Exception:  # noqa: BLE001 - any exception of a broken subject is a failure
            failed.add(int(law[1]))
        except BaseException as error:
            if not str(error).startswith("DID NOT RAISE"):  # for example a timeout
                raise
            failed.add(int(law[1]))
    return failed


def test_every_law_has_a_test_and_a_broken_subject() -> None:
    laws = {int(law[1]) for name in dir(Whole) if (law := re.match(r"test_law_(\d\d)_", name))}

    assert laws == set(range(1, 16))
    assert laws == set(LAWS)


def test_the_unbroken_subject_passes() -> None:
    assert laws_that_fail(Whole) == set()


@pytest.mark.parametrize("law", range(1, 16))
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broken_law_is_caught_by_its_own_tests_and_by_no_others(law: int) -> None:
    """The name of the failing test says which promise is broken."""
    assert laws_that_fail(LAWS[law]) == {law}


@pytest.mark.parametrize("subject", TELLING)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_is_told_wrongly_is_caught_too(subject: Any) -> None:
    """A wrong report is caught by the tests of the law to which the report belongs."""
    assert laws_that_fail(subject) == {subject.law}
