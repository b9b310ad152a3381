"""The server of tests/server, for third-party clients."""

from __future__ import annotations

from server.conftest import smol

__all__ = ["smol"]
