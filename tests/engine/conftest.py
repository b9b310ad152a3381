"""Lets the tests of the engine import `oracle` and `fake_model`."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parent.parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
