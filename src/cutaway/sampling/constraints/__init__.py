"""What an answer must be: schemas, grammars and tool calls, compiled for llguidance."""
