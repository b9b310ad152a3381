"""Chat messages: their format, the template that renders them, and reasoning."""
