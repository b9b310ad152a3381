"""Text and tokens: tokenizers, chat templates, and the way back from tokens to text."""

from __future__ import annotations

from cutaway.text.detokenizer import Detokenizer
from cutaway.text.loading import load_tokenizer
from cutaway.text.template import ChatTemplate, load_template, require_template
from cutaway.text.tokenizer import Piece, Segment, SpecialIds, TextLossWarning, Tokenizer
from cutaway.text.vocabulary import Vocabulary

__all__ = [
    "ChatTemplate",
    "Detokenizer",
    "Piece",
    "Segment",
    "SpecialIds",
    "TextLossWarning",
    "Tokenizer",
    "Vocabulary",
    "load_template",
    "load_tokenizer",
    "require_template",
]
