"""Tool calls: the formats of model families, and parsers for a growing text."""
