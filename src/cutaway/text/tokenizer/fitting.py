"""Fits a tokenizer to the rows of the model's embedding, which may be more or fewer than its tokens."""

from __future__ import annotations

from cutaway.errors import TokenizerError
from cutaway.text.tokenizer.tokenizer import Tokenizer
from cutaway.text.tokenizer.vocabulary import UNUSED


def fit(tokenizer: Tokenizer, rows: int) -> None:
    """Ids beyond the tokens become entries without text. Markers and end tokens beyond the rows are removed, with a
    warning.

    Raises:
        TokenizerError: tokens of text, or those that begin or end one, have no row.
    """
    size = len(tokenizer.vocabulary)
    tokenizer.vocabulary.rows = max(size, rows)
    if lost := [id for id in sorted(tokenizer.end_ids) if not 0 <= id < rows]:
        ids = f"the model's ids are 0 to {rows - 1}"
        tokenizer.warnings.append(f"end tokens {lost} do not exist ({ids}) and are ignored")
        tokenizer.end_ids = tokenizer.end_ids.difference(lost)
    if size > rows:
        _shorten(tokenizer, rows, size)


def _shorten(tokenizer: Tokenizer, rows: int, size: int) -> None:
    beyond = [id for id in range(rows, size) if tokenizer.kind(id) != "unused"]
    roles = {tokenizer.bos_id, tokenizer.eos_id}
    if needed := [id for id in beyond if id not in tokenizer.markers.ids or id in roles]:
        raise TokenizerError(
            f"the vocabulary has {size} tokens, the model's embedding {rows} rows: token {needed[0]} "
            f"({tokenizer.piece(needed[0])!r}) and {len(needed) - 1} more have none",
            hint="the tokenizer belongs to another model",
        )
    if beyond:
        names = ", ".join(map(tokenizer.piece, beyond[:4]))
        tokenizer.warnings.append(f"{len(beyond)} markers without a row in the model's embedding are left out: {names}")
    tokenizer.markers = tokenizer.markers.below(rows)
    tokenizer.vocabulary.types[rows:] = UNUSED
