"""Text to token ids and back, for every format of tokenizer."""
