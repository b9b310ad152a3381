"""From a JSON object to the fields of a route: types are checked, null is absent, unknown names are reported."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from cutaway.server.api.nested_fields import unknown_inside
from cutaway.server.api.schemas import Fields
from cutaway.server.transport.body import Body
from cutaway.server.transport.errors import ApiError, bad_request

F = TypeVar("F", bound=Fields)

WITHOUT_EFFECT = frozenset({
    "user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
    "prediction", "verbosity", "priority", "request_id", "cache_prompt", "id_slot", "slot_id", "prompt_cache_options",
    "spaces_between_special_tokens", "detokenize", "reasoning_effort", "moderation", "return_progress",
    "guided_decoding_backend",
})  # fmt: skip
"""Fields that clients send and that have no effect here."""

ONLY = {
    "skip_special_tokens": (True,), "use_beam_search": (False,), "modalities": (["text"],), "length_penalty": (1, 1.0),
    "return_tokens_as_token_ids": (False,), "suffix": ("",), "min_keep": (0,), "post_sampling_probs": (False,),
    "functions": ([],), "function_call": ("none", "auto"), "early_stopping": (False,), "top_h": (0,),
    "truncate_prompt_tokens": (), "include_reasoning": (True,), "add_special_tokens": (True, False),
    "adaptive_target": (), "chat_template": (), "audio": (), "web_search_options": (), "repeat_last_n": (-1,),
    "samplers": (), "penalize_nl": (True, False), "dynamic_temperature": (), "lora": ([],), "n_probs": (0,),
    "logits_processors": ([],), "top_a": (0, 0.0), "tfs_z": (1, 1.0), "return_tokens": (False,), "echo": (False,),
    "guided_whitespace_pattern": (), "structural_tag": (), "n_keep": (0, -1), "response_fields": (),
}  # fmt: skip
"""Fields that other servers support and this one does not: any value but these is an error."""


def read_fields(
    kind: type[F], body: Mapping[str, Any], *, strict: bool = False
) -> tuple[F, list[str]]:
    """The fields, and warnings. body: a Body, or any object. strict: treat unknown fields and repeated keys as errors.

    Raises ApiError, which names the field.
    """
    given = {key: value for key, value in body.items() if value is not None}
    try:
        fields = kind.model_validate(given)
    except ValidationError as error:
        raise _wrong(kind, error) from None
    unknown: list[str] = []
    for name, value in (fields.model_extra or {}).items():
        if name in kind.without_effect:
            continue
        if name in ONLY:
            if not any(type(value) is type(allowed) and value == allowed for allowed in ONLY[name]):
                raise bad_request(_not_obeyed(name), name, "parameter_unsupported")
        elif name not in WITHOUT_EFFECT:
            unknown.append(name)
    strict = strict if getattr(fields, "strict", None) is None else bool(getattr(fields, "strict"))  # noqa: B009
    warnings = _of_the_body(body, strict)
    found = [(name, f"unknown field {_quoted(name)}", _nearest(kind.model_fields, name)) for name in unknown]
    for path, key, known in unknown_inside(fields):
        found.append((path.partition(".")[0], f"unknown field {_quoted(f'{path}.{key}')}", _nearest(known, key)))
    if found and strict:
        param, what, near = found[0]
        raise bad_request(what + near, param, "unknown_field")
    return fields, [*warnings, *(f"{what} was ignored{near}" for _, what, near in found)]


def _of_the_body(body: Mapping[str, Any], strict: bool) -> list[str]:
    """Warnings about how the body was read. Raises ApiError."""
    if not isinstance(body, Body):
        return []
    if body.twice and strict:
        key = body.twice[0]
        raise bad_request(f"the key {_quoted(key)} is given twice in one object", key, "key_duplicate")
    twice = [f"the key {_quoted(key)} is given twice in one object; the last one counts" for key in body.twice]
    return [*body.warnings, *twice]


def agreed(fields: Fields, *names: str) -> Any:
    """The value of fields that are synonyms, or None. Raises ApiError if two are given with different values."""
    given = [(name, value) for name in names if (value := getattr(fields, name)) is not None]
    for name, value in given:
        if value != given[0][1]:
            raise bad_request(
                f"{given[0][0]} and {name} have the same meaning but different values", name, "parameter_invalid"
            )
    return given[0][1] if given else None


def _not_obeyed(name: str) -> str:
    allowed = " or ".join(map(repr, ONLY[name]))
    return f"{name} is not supported here" + (f"; it may be {allowed}" if allowed else "")


def _quoted(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:60] + "...")


def _nearest(known: Iterable[str], name: str) -> str:
    near = difflib.get_close_matches(name[:60], list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def _wrong(kind: type[BaseModel], error: ValidationError) -> ApiError:
    """The first error. A field of several types has one error for each; they are reported as one."""
    first = error.errors(include_url=False)[0]
    field = str(first["loc"][0]) if first["loc"] else None
    if first["type"] == "missing":
        path = ".".join(map(str, first["loc"]))
        return bad_request(f"{path} is missing", field, "field_missing")
    expected = [
        str(e["msg"]).removeprefix("Input should be ").removeprefix("a valid ")
        for e in error.errors(include_url=False)
        if e["loc"] and e["loc"][0] == field
    ]
    path = ".".join(str(p) for p in first["loc"] if not _is_branch(str(p)))
    shown = repr(first["input"])
    shown = shown if len(shown) <= 80 else shown[:80] + "..."
    return bad_request(
        f"{path} must be {' or '.join(dict.fromkeys(expected))}, but is {shown}", field, "parameter_invalid"
    )


def _is_branch(part: str) -> bool:
    """Whether a part of a path names an alternative of a union and not a key."""
    return part in {"str", "bool", "int", "float"} or part.startswith(("list[", "dict["))
