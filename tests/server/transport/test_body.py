"""Bodies that programs send and should not: keys that appear twice, halves of characters, older encodings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cutaway.config import parse_config
from cutaway.errors import ConfigError
from cutaway.server.api.schemas import Completion, Tokenize
from cutaway.server.api.validation import read_fields
from cutaway.server.routes import ROUTES
from cutaway.server.transport.body import parse_json
from cutaway.server.transport.body_encodings import decode_chinese
from cutaway.server.transport.errors import ApiError
from server.serving import CHAT, HELLO, Running, config_for, running

SIMPLIFIED = ["今天天气很好，我们去公园散步吧。", "你好", "请用中文回答：法国的首都是哪里？", "谢谢你", "模型"]
TRADITIONAL = ["今天天氣很好，我們去公園散步吧。", "請用中文回答：法國的首都是哪裡？", "謝謝你的說明"]
BOTH = ("gb18030", "big5")


# --- keys that appear twice -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "body",
    ['{"prompt": "a", "prompt": "b"}', '{"prompt": null, "prompt": "b"}', '{"prompt": "b", "prompt": "b"}',
     '{"prompt": "b", "x": {"k": 1, "k": [{"j": 1, "j": 2}]}}'],
)  # fmt: skip
def test_a_key_that_stands_twice_is_a_warning_or_an_error(body: str) -> None:
    parsed = parse_json(body.encode(), 50)
    fields, warnings = read_fields(Completion, parsed)
    assert fields.prompt == "b" and any("is given twice in one object" in warning for warning in warnings)
    with pytest.raises(ApiError) as raised:
        read_fields(Completion, parsed, strict=True)
    assert (raised.value.status, raised.value.code) == (400, "key_duplicate")
    with pytest.raises(ApiError):
        read_fields(Completion, parse_json(body[:-1].encode() + b', "strict": true}', 50))


def test_the_same_key_in_different_objects_is_none() -> None:
    assert not parse_json(b'{"a": {"k": 1}, "b": [{"k": 1}, {"k": 2}], "k": 3}', 50).twice


# --- halves of characters ---------------------------------------------------------------------------------------------
HALF = "\ud83d"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"prompt": f"a{HALF}"}, "prompt"), ({"stop": ["x", HALF]}, "stop[1]"), ({"user": HALF}, "user"),
        ({"cache_salt": HALF}, "cache_salt"), ({HALF: 1}, "the key"), ({"metadata": {"a": {HALF: 1}}}, "the key"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": HALF}]}]}, "messages[0].content[0].text"),
        ({"tools": [{"function": {"parameters": {"enum": [HALF]}}}]}, "tools[0].function.parameters.enum[0]"),
        ({"prompt": "\udc00\ud800"}, "prompt"), ({"model": "\udfff"}, "model"),
    ],
)  # fmt: skip
def test_half_a_surrogate_pair_is_refused_wherever_it_stands(body: dict[str, Any], words: str) -> None:
    for encoded in (json.dumps(body), json.dumps(body).replace("\\ud", "\\uD")):
        with pytest.raises(ApiError) as raised:
            parse_json(encoded.encode(), 50)
        assert (raised.value.status, raised.value.code) == (400, "encoding_invalid")
        assert words in raised.value.message and "surrogate" in raised.value.message
        raised.value.message.encode()


def test_whole_pairs_and_what_only_looks_like_an_escape_pass() -> None:
    assert parse_json(rb'{"a": "\ud83d\ude00", "b": "\\ud83d"}', 9) == {"a": "\U0001f600", "b": "\\ud83d"}


@pytest.mark.models
@pytest.mark.parametrize("path", [route.path for route in ROUTES if route.schema is not None])
def test_every_route_reads_its_body_in_this_one_place(smol: Running, path: str) -> None:
    for body, code in (
        (b'{"user": "\\ud800"}', "encoding_invalid"),
        (b'{"strict": true, "x": 1, "x": 2, "model": "smol", "max_tokens": 1, "messages": [], "prompt": "a", '
         b'"input": "a", "tokens": [1]}', None),
    ):  # fmt: skip
        reply = smol.client.post(path, content=body)
        assert reply.status_code == 400, reply.text
        if code is not None and path.startswith("/v1/") and not path.startswith("/v1/messages"):
            assert reply.json()["error"]["code"] == code
        elif code is not None:  # Anthropic's, Ollama's and llama.cpp's errors have no codes of ours
            assert "surrogate" in reply.text


@pytest.mark.models
def test_a_warning_of_the_body_reaches_its_sender(smol: Running) -> None:
    reply = smol.client.post(CHAT, content=json.dumps({"messages": HELLO})[:-1] + ', "max_tokens": 9, "max_tokens": 1}')
    assert "the key 'max_tokens' is given twice" in reply.json()["warnings"][0]
    assert reply.json()["usage"]["completion_tokens"] == 1


# --- older encodings --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("encoding", "texts"), [("gb18030", SIMPLIFIED), ("big5", TRADITIONAL)])
def test_a_body_in_an_older_encoding_is_taken_where_the_config_says_so(encoding: str, texts: list[str]) -> None:
    for text in texts:
        body = json.dumps({"prompt": text}, ensure_ascii=False).encode(encoding)
        for taken in (BOTH, (encoding,)):
            parsed = parse_json(body, 50, taken)
            assert parsed["prompt"] == text
            assert ("GB18030" if encoding == "gb18030" else "Big5") in parsed.warnings[0]
        with pytest.raises(ApiError, match="not UTF-8"):
            parse_json(body, 50)


def test_what_the_request_names_counts_and_only_what_the_config_takes() -> None:
    body = json.dumps({"prompt": "模型"}, ensure_ascii=False).encode("big5")
    both = json.dumps({"prompt": "谢谢"}, ensure_ascii=False).encode("gbk")  # which is UTF-8, too
    assert parse_json(both, 50, BOTH)["prompt"] == "лл" == parse_json(both, 50, (), "gbk")["prompt"]
    assert parse_json(both, 50, BOTH, "gbk")["prompt"] == "谢谢"
    for named in ("big5", "big5-hkscs", "cp950"):
        found = decode_chinese(body, BOTH, named)
        assert found is not None and "模型" in found[0]
    assert decode_chinese(b"\xff\xff", BOTH) is None and decode_chinese(body, ()) is None
    with pytest.raises(ApiError):
        parse_json('{"prompt": "\u00e9\u00e8"}'.encode("latin-1"), 50, ())


def test_utf8_stays_utf8() -> None:
    for text in [*SIMPLIFIED, *TRADITIONAL, "é"]:
        parsed = parse_json(json.dumps({"prompt": text}, ensure_ascii=False).encode(), 50, BOTH)
        assert parsed["prompt"] == text and not parsed.warnings


def test_the_config_knows_these_two() -> None:
    assert parse_config('[server]\nbody_encodings = ["big5"]').server.body_encodings == ("big5",)
    with pytest.raises(ConfigError, match="gb18030"):
        parse_config('[server]\nbody_encodings = ["latin-1"]')


@pytest.mark.models
def test_it_is_off_until_it_is_asked_for(smollm2_path: Path, smol: Running) -> None:
    body = json.dumps({"prompt": SIMPLIFIED[0]}, ensure_ascii=False).encode("gb18030")
    assert smol.client.post("/tokenize", content=body).json()["error"]["code"] == "encoding_invalid"
    with running(config_for(smollm2_path, body_encodings=BOTH)) as server:
        reply = server.client.post("/tokenize", content=body).json()
        assert "was read as GBK (GB18030)" in reply["warnings"][0]
        assert server.ok("/detokenize", tokens=reply["tokens"])["prompt"] == SIMPLIFIED[0]


def test_fields_read_from_a_plain_object_have_no_such_warnings() -> None:
    assert read_fields(Tokenize, {"prompt": "a"})[1] == []
