"""The command line: one small file per command."""

from cutaway.cli.app import main

__all__ = ["main"]
