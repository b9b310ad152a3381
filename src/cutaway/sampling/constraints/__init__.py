"""Constraints on answers: schemas, grammars and tool calls, compiled for llguidance."""
