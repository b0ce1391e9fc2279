"""The same tests on another platform's ways: `LOCKFAST_TEST_PLATFORM=macos`, or `=windows`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DISGUISE = Path(__file__).with_name("disguise")

# When this is imported, for it has to be before anything of Lockfast is. A process that is started
# by one in disguise is in it already, but may be told another path since.
if os.environ.get("LOCKFAST_TEST_PLATFORM"):
    if str(DISGUISE) not in os.environ.get("PYTHONPATH", ""):
        ways = [str(DISGUISE), os.environ.get("PYTHONPATH")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, ways))
    if str(DISGUISE) not in sys.path:
        sys.path.insert(0, str(DISGUISE))
    if not hasattr(sys.modules.get("sitecustomize"), "put_on"):
        sys.modules.pop("sitecustomize", None)  # the one of the system, which has run
        import sitecustomize  # noqa: F401 - it acts when it is imported
