"""Text and tokens: tokenizers, chat templates, and the way back from tokens to text."""

from __future__ import annotations

from cutaway.text.chat.origins import Origin, Traced
from cutaway.text.chat.reasoning import (
    ReasoningFormat,
    ReasoningParser,
    ReasoningPiece,
    detect_reasoning,
    opens_reasoning,
    split_reasoning,
)
from cutaway.text.chat.template import ChatTemplate, load_template, require_template
from cutaway.text.chat_prompt import chat_prompt, shows_tools, tool_format_of, traced_prompt
from cutaway.text.lost_text import TextLossWarning, losses_known
from cutaway.text.tokenizer.detokenizer import Detokenizer
from cutaway.text.tokenizer.fill_markers import FillMarkers, fill_markers
from cutaway.text.tokenizer.load import load_tokenizer
from cutaway.text.tokenizer.tokenizer import Piece, Segment, SpecialIds, Tokenizer
from cutaway.text.tokenizer.vocabulary import Vocabulary
from cutaway.text.tools.events import (
    Arguments,
    CallEnded,
    CallStarted,
    Content,
    ParseWarning,
    ToolCall,
    ToolEvent,
    ToolMessage,
    gathered,
)
from cutaway.text.tools.formats import (
    TOOL_FORMATS,
    control_markers,
    detect_tool_format,
    renders_tools,
    tool_instructions,
)
from cutaway.text.tools.parser import ToolParser, new_call_id, parse_tools

__all__ = [
    "TOOL_FORMATS",
    "Arguments",
    "CallEnded",
    "CallStarted",
    "ChatTemplate",
    "Content",
    "Detokenizer",
    "FillMarkers",
    "Origin",
    "ParseWarning",
    "Piece",
    "ReasoningFormat",
    "ReasoningParser",
    "ReasoningPiece",
    "Segment",
    "SpecialIds",
    "TextLossWarning",
    "Tokenizer",
    "ToolCall",
    "ToolEvent",
    "ToolMessage",
    "ToolParser",
    "Traced",
    "Vocabulary",
    "chat_prompt",
    "control_markers",
    "detect_reasoning",
    "detect_tool_format",
    "fill_markers",
    "gathered",
    "load_template",
    "load_tokenizer",
    "losses_known",
    "new_call_id",
    "opens_reasoning",
    "parse_tools",
    "renders_tools",
    "require_template",
    "shows_tools",
    "split_reasoning",
    "tool_format_of",
    "tool_instructions",
    "traced_prompt",
]
