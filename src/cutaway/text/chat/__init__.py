"""Chat messages: their shape, the template that renders them, reasoning."""
