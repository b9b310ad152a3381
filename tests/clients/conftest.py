"""The server of tests/server, for clients that nobody here wrote."""

from __future__ import annotations

from server.conftest import smol

__all__ = ["smol"]
