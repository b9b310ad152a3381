"""The stages between a row of logits and a token, one file per idea."""
