"""The same tests as on another platform: `LOCKFAST_TEST_PLATFORM=macos`, or `=windows`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DISGUISE = Path(__file__).with_name("disguise")

# At import, because the disguise has to be on before Lockfast is imported. A process started by a
# disguised one is disguised already, but may have been given another path.
if os.environ.get("LOCKFAST_TEST_PLATFORM"):
    if str(DISGUISE) not in os.environ.get("PYTHONPATH", ""):
        ways = [str(DISGUISE), os.environ.get("PYTHONPATH")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, ways))
    if str(DISGUISE) not in sys.path:
        sys.path.insert(0, str(DISGUISE))
    if not hasattr(sys.modules.get("sitecustomize"), "put_on"):
        sys.modules.pop("sitecustomize", None)  # the system's own, which has run
        import sitecustomize  # noqa: F401 - it acts when it is imported
