"""/tokenize, /detokenize, /apply-template and /tokenizer_info: the steps from a text to the model's input."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.assemble import Engine
from cutaway.server.api.schemas import ApplyTemplate, Tokenize
from cutaway.server.api.validation import agreed
from cutaway.server.generation.caught_warnings import heard
from cutaway.server.generation.chat_request import chosen_tools, template_variables
from cutaway.server.generation.respond import JsonReply
from cutaway.server.route import read_request
from cutaway.server.state import request_id, service_of
from cutaway.server.transport.errors import bad_request
from cutaway.text import Segment


async def tokenize(request: Request) -> Response:
    """Convert a text or messages to token ids.

    The fields are vLLM's (prompt or messages, add_special_tokens) and llama.cpp's (content, add_special,
    parse_special). Control tokens in a text are read only with `parse_special`.
    """
    service = service_of(request)
    fields, warnings = await read_request(request)
    text, special = agreed(fields, "prompt", "content"), agreed(fields, "add_special_tokens", "add_special")
    if (text is None) == (fields.messages is None):
        raise bad_request("give either prompt (or content) or messages", "prompt", "parameter_invalid")
    async with service.roster.lease(fields.model, request_id(request)) as lease:
        reply = await service.in_thread(heard, warnings, _tokenized, lease.engine, fields, text, special)
    return JsonReply(reply | ({"warnings": warnings} if warnings else {}))


def _tokenized(engine: Engine, fields: Tokenize, text: str | None, special: bool | None) -> dict[str, Any]:
    tokenizer = engine.tokenizer
    if text is None:
        ids = tokenizer.encode_segments(_rendered(engine, fields))
    else:
        ids = tokenizer.encode(text, add_special=special is not False, parse_special=bool(fields.parse_special))
    reply: dict[str, Any] = {"count": len(ids), "max_model_len": engine.context, "tokens": ids}
    if fields.with_pieces:
        reply["tokens"] = [{"id": i, "piece": _piece(tokenizer.token_bytes(i), tokenizer.piece(i))} for i in ids]
    if fields.return_token_strs:
        reply["token_strs"] = [tokenizer.piece(i) for i in ids]
    return reply


def _piece(raw: bytes, name: str) -> str | list[int]:
    """A piece in llama.cpp's format: text, or a list of bytes that are not text on their own."""
    try:
        return raw.decode() if raw else name
    except UnicodeDecodeError:
        return list(raw)


async def detokenize(request: Request) -> Response:
    """Convert token ids to text."""
    service = service_of(request)
    fields, warnings = await read_request(request)
    async with service.roster.lease(fields.model, request_id(request)) as lease:
        size = lease.engine.tokenizer.vocabulary.rows
        if wrong := [token for token in fields.tokens if not 0 <= token < size]:
            raise bad_request(
                f"tokens contains {wrong[0]}; ids of this model are 0 to {size - 1}", "tokens", "parameter_invalid"
            )
        skip = bool(fields.skip_special_tokens)
        text = await service.in_thread(lease.engine.tokenizer.decode, fields.tokens, skip_special=skip)
    reply = {"prompt": text, "content": text}
    return JsonReply(reply | ({"warnings": warnings} if warnings else {}))


async def apply_template(request: Request) -> Response:
    """Render messages as the text that the model sees, with the template's control tokens marked."""
    service = service_of(request)
    fields, warnings = await read_request(request)
    async with service.roster.lease(fields.model, request_id(request)) as lease:
        segments = await service.in_thread(heard, warnings, _rendered, lease.engine, fields)
    reply: dict[str, Any] = {
        "prompt": "".join(s.text for s in segments),
        "segments": [{"text": s.text, "special": s.special} for s in segments],
    }  # fmt: skip
    return JsonReply(reply | ({"warnings": warnings} if warnings else {}))


async def tokenizer_info(request: Request) -> Response:
    """What a client needs to make prompts itself, in vLLM's fields. `?model=` names the model."""
    service = service_of(request)
    async with service.roster.lease(request.query_params.get("model"), request_id(request)) as lease:
        engine = lease.engine
    tokenizer = engine.tokenizer
    ids = {"bos_token": tokenizer.bos_id, "eos_token": tokenizer.eos_id, "pad_token": tokenizer.pad_id}
    return JsonReply({
        **{role: None if id is None else tokenizer.piece(id) for role, id in ids.items()},
        "add_bos_token": tokenizer.add_bos, "add_eos_token": tokenizer.add_eos,
        "chat_template": engine.template.source if engine.template is not None else None,
        "model_max_length": engine.context, "vocab_size": tokenizer.vocab_size,
    })  # fmt: skip


def _rendered(engine: Engine, fields: Tokenize | ApplyTemplate) -> list[Segment]:
    tools, _, _ = chosen_tools(fields.tools, None)
    return engine.chat_prompt(
        fields.messages or [], tools=tools or None, documents=fields.documents,
        add_generation_prompt=fields.add_generation_prompt,
        continue_final_message=bool(fields.continue_final_message), **template_variables(fields.chat_template_kwargs),
    )  # fmt: skip
