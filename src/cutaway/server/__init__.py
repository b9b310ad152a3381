"""The server: serves models to many clients at once, through the APIs that their programs already use."""

from __future__ import annotations

from cutaway.server.app import create_app
from cutaway.server.launch import serve

__all__ = ["create_app", "serve"]
