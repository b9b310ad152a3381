"""A running request: from its input to the pieces of its answer."""
