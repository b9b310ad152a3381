"""Tool calls: how families write them, and how they are read out of a growing text."""
