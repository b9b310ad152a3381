"""Text to token ids and back, from every format a tokenizer comes in."""
