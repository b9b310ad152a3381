"""Bodies, prompts, messages, models: what comes in, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.server.transport.body import check_depth, parse_json
from cutaway.server.transport.errors import ApiError
from server.serving import CHAT, COMPLETIONS, HELLO, Running


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("gb18030", "GBK"),
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16"),
        ("utf-16-be", "UTF-16"),
        ("utf-32-le", "UTF-32"),
    ],
)
def test_a_body_that_is_not_utf8_is_named(encoding: str, words: str) -> None:
    text = json.dumps({"prompt": "中文字符编码检测需要足够长的文本才能判断，今天天气很好。"}, ensure_ascii=False)
    with pytest.raises(ApiError) as raised:
        parse_json(text.encode(encoding), 50)
    assert words in raised.value.message and raised.value.code == "encoding_invalid"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"\x1f\x8b\x08", "gzip"),
        (b'{"a": 1,}', "line 1 column"),
        (b"[1]", "must be a JSON object, not an array"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "more than 50 levels deep"),
        (b'{"a": ' + b"[" * 60 + b"]" * 60 + b"}", "more than 50 levels deep"),
        (b'{"a": "' + b"\xff" + b'"}', "byte 7 is 0xff"),
    ],
)
def test_a_body_that_is_no_object(body: bytes, words: str) -> None:
    with pytest.raises(ApiError) as raised:
        parse_json(body, 50)
    assert raised.value.status == 400 and words in raised.value.message


def test_utf8_with_its_mark_is_taken() -> None:
    assert parse_json(b"\xef\xbb\xbf{}", 5) == {}


@given(st.binary(max_size=200))
def test_any_bytes_give_an_object_or_a_400(body: bytes) -> None:
    try:
        check_depth(parse_json(body, 10), 10)
    except ApiError as error:
        assert error.status == 400


@pytest.mark.models
class TestOverTheSocket:
    def test_encodings_and_sizes(self, smol: Running) -> None:
        gbk = '{"messages": [{"role": "user", "content": "今天的天气怎么样，我们一起出去走走吧"}]}'.encode("gbk")
        reply = smol.client.post(CHAT, content=gbk)
        assert reply.status_code == 400 and "GBK" in reply.json()["error"]["message"]
        assert smol.client.post(CHAT, content=b" " * (8 * 2**20 + 1)).status_code == 413
        assert smol.client.post(CHAT, content=iter([b" " * 2**20] * 9)).status_code == 413
        assert smol.refused("/nowhere", 404)["message"] == "there is no /nowhere"
        refused = smol.client.get(CHAT)
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        assert refused.json()["error"]["code"] == "method_not_allowed"
        assert smol.client.post("/health").status_code == 405

    @pytest.mark.parametrize(
        ("path", "input", "param"),
        [
            (CHAT, {"messages": HELLO}, "messages"),
            (COMPLETIONS, {"prompt": "x"}, "prompt"),
            ("/v1/responses", {"input": "x"}, "input"),
            ("/v1/messages", {"messages": HELLO, "max_tokens": 9}, "messages"),
        ],
    )
    def test_what_only_the_engine_refuses_is_named_as_the_request_named_it(
        self, smol: Running, path: str, input: dict[str, Any], param: str
    ) -> None:
        long = json.loads(json.dumps(input).replace("Say hello.", "a " * 900).replace('"x"', f'"{"a " * 900}"'))
        assert (error := smol.refused(path, **long)) and error.get("param", param) == param, error
        schema = {"type": "array", "uniqueItems": True}
        named: dict[str, dict[str, Any]] = {
            "guided_json": schema, "json_schema": schema, "structured_outputs": {"json": schema},
            "response_format": {"type": "json_schema", "json_schema": {"schema": schema}},
        }  # fmt: skip
        if path == "/v1/responses":
            named["text"] = {"format": {"type": "json_schema", "schema": schema}}
        if path == "/v1/messages":
            named["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        for field, value in named.items():
            error = smol.refused(path, **input, **{field: value})
            assert error["message"].startswith(f"{field} at #: uniqueItems"), error
            assert error.get("param", field) == field
        error = smol.refused(path, **input, guided_regex="[a-")
        assert error["message"].startswith("guided_regex cannot")

    def test_a_token_that_is_not_there_and_tools_that_are_wrong_name_their_field(self, smol: Running) -> None:
        assert smol.refused(COMPLETIONS, prompt=[5, 999_999])["param"] == "prompt"
        function = {"name": "f", "parameters": {"type": "objec"}, "strict": True}
        tool: dict[str, Any] = {"type": "function", "function": function}
        assert smol.refused(CHAT, messages=HELLO, tools=[tool])["param"] == "tools"
        del function["strict"]
        reply = smol.ok(CHAT, messages=HELLO, tools=[tool], max_tokens=1)
        assert any("tool 'f'" in warning for warning in reply["warnings"])

    @pytest.mark.parametrize(
        ("path", "fields", "param"),
        [
            ("/tokenize", {"prompt": "a", "content": "b"}, "content"),
            ("/tokenize", {"prompt": "a", "add_special": True, "add_special_tokens": False}, "add_special"),
            ("/v1/messages", {"messages": HELLO, "max_tokens": 1, "stop": ["a"], "stop_sequences": ["b"]}, "stop_seq"),
            (CHAT, {"messages": HELLO, "reasoning_budget": 1, "thinking_token_budget": 2}, "thinking_token_budget"),
            (
                "/v1/responses",
                {"input": "x", "text": {"format": {"type": "json_object"}}, "response_format": {"type": "json_object"}}
                | {"response_format": {"type": "json_schema", "json_schema": {"schema": True}}},
                "text",
            ),
        ],
    )
    def test_names_that_mean_the_same_must_agree(
        self, smol: Running, path: str, fields: dict[str, Any], param: str
    ) -> None:
        error = smol.refused(path, **fields)
        assert "different values" in error["message"] or "both set" in error["message"]
        assert param in error["message"]

    @pytest.mark.parametrize("prompt", ["", [""], [], [[]], ["a", ""]])
    def test_an_empty_prompt_is_refused(self, smol: Running, prompt: Any) -> None:
        """C43."""
        assert smol.refused(COMPLETIONS, prompt=prompt)["param"] == "prompt"
        assert smol.ok(COMPLETIONS, prompt="x", max_tokens=1)

    @pytest.mark.parametrize(
        ("messages", "words"),
        [
            ([], "empty"),
            ([{"role": "user"}], "content is missing"),
            ([{"role": "<|x|>", "content": "a"}], "role must be a name"),
            ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}], "image_url"),
            (
                [{"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}],
                "JSON",
            ),
            ([{"role": "user", "content": "\ud800"}], "surrogate"),
        ],
    )
    def test_messages_that_cannot_be_used(self, smol: Running, messages: Any, words: str) -> None:
        """C19, C21, C43."""
        reply = smol.client.post(CHAT, content=json.dumps({"messages": messages}))
        assert reply.status_code == 400 and words in reply.json()["error"]["message"], reply.text

    def test_content_parts_and_null_beside_calls(self, smol: Running) -> None:
        """C19."""
        parts = [{"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]}]
        joined = smol.ok("/apply-template", messages=parts)["prompt"]
        assert joined == smol.ok("/apply-template", messages=[{"role": "user", "content": "AB"}])["prompt"]
        history = [
            {"role": "user", "content": "2+2?"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}]},
            {"role": "tool", "tool_call_id": "c", "content": "4"},
        ]  # fmt: skip
        assert smol.ok(CHAT, messages=history, max_tokens=1)

    def test_a_developer_is_a_system(self, smol: Running) -> None:
        fields = {"max_tokens": 4, "temperature": 0}
        said = [
            smol.ok(CHAT, messages=[{"role": role, "content": "Be brief."}, *HELLO], **fields)
            for role in ("system", "developer")
        ]
        assert said[0]["choices"] == said[1]["choices"]

    def test_an_unknown_model_is_a_404_with_what_is_served(self, smol: Running) -> None:
        """C50."""
        error = smol.refused(CHAT, 404, model="no-such-model", messages=HELLO)
        assert error["code"] == "model_not_found" and "smol" in error["message"]
        assert smol.ok(CHAT, messages=HELLO, max_tokens=1)["model"] == "smol"

    def test_a_pin(self, smol: Running) -> None:
        sha256 = smol.client.get("/v1/models").json()["data"][0]["sha256"]
        for pin in (sha256, sha256[:8].upper()):
            assert smol.ok(CHAT, model=f"smol@sha256:{pin}", messages=HELLO, max_tokens=1)["model"] == "smol"
        assert sha256 in smol.refused(CHAT, 404, model="smol@sha256:00000000", messages=HELLO)["message"]
        assert "hexadecimal" in smol.refused(CHAT, model="smol@sha256:xyz", messages=HELLO)["message"]
        assert sha256[:12] in smol.ok(CHAT, messages=HELLO, max_tokens=1)["system_fingerprint"]

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_prompt_beyond_the_context(self, smol: Running, stream: bool) -> None:
        """C46."""
        long = [{"role": "user", "content": "word " * 900}]
        error = smol.refused(CHAT, messages=long, stream=stream)
        assert error["code"] == "context_length_exceeded" and error["type"] == "invalid_request_error"
        assert "931" in error["message"] and "512" in error["message"]
        assert smol.refused(COMPLETIONS, prompt=list(range(100, 613)))["code"] == "context_length_exceeded"

    def test_max_tokens_beyond_the_context_is_clamped_and_said(self, smol: Running) -> None:
        """C46."""
        reply = smol.ok(COMPLETIONS, prompt=list(range(100, 608)), max_tokens=100, ignore_eos=True)
        assert reply["usage"]["completion_tokens"] == 4 and reply["choices"][0]["finish_reason"] == "length"
        assert "leave 4 of 512" in reply["warnings"][0]

    def test_truncation_leaves_out_whole_oldest_turns(self, smol: Running) -> None:
        turns = [m for i in range(12) for m in (
            {"role": "user", "content": f"{i} " + "word " * 40}, {"role": "assistant", "content": "ok"})]  # fmt: skip
        chat = [{"role": "system", "content": "Stay."}, *turns, *HELLO]
        assert smol.refused(CHAT, messages=chat)["code"] == "context_length_exceeded"
        reply = smol.ok(CHAT, messages=chat, truncation="auto", max_tokens=8, return_token_ids=True)
        (warning,) = reply["warnings"]
        assert "the oldest 4 turns (8 messages, " in warning and "context of 512" in warning
        assert reply["usage"]["prompt_tokens"] <= 504
        text = smol.ok("/detokenize", tokens=reply["prompt_token_ids"])["prompt"]
        assert "Stay." in text and "Say hello." in text and "\n3 word" not in text and "\n4 word" in text
        one = [{"role": "user", "content": "word " * 900}]
        assert smol.refused(CHAT, messages=one, truncation="auto")["code"] == "context_length_exceeded"

    def test_the_final_message_is_continued(self, smol: Running) -> None:
        chat = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "1, 2, 3,"}]
        reply = smol.ok(CHAT, messages=chat, continue_final_message=True, max_tokens=6, temperature=0)
        assert "4" in reply["choices"][0]["message"]["content"]
        assert smol.ok("/apply-template", messages=chat, continue_final_message=True)["prompt"].endswith("1, 2, 3,")

    def test_what_a_vocabulary_cannot_hold_is_said(self, smol: Running) -> None:
        reply = smol.ok(COMPLETIONS, prompt="\U00040000x", max_tokens=1)
        assert "in this vocabulary" in reply["warnings"][0]
        assert smol.ok("/tokenize", prompt="\U00040000x")["warnings"] == reply["warnings"]

    def test_tokenize_and_back(self, smol: Running) -> None:
        ids = smol.ok("/tokenize", prompt="naïve 中文 🙂")["tokens"]
        assert smol.ok("/detokenize", tokens=ids)["prompt"] == "naïve 中文 🙂"
        assert smol.ok("/tokenize", content="<|im_end|>")["count"] == 7
        assert smol.ok("/tokenize", content="<|im_end|>", parse_special=True)["tokens"] == [2]
        assert smol.ok("/tokenize", prompt="hello")["tokens"] == [28120]
        pieces = smol.ok("/tokenize", prompt="😀", with_pieces=True, return_token_strs=True)
        assert [240, 159, 152] in [p["piece"] for p in pieces["tokens"]] or len(pieces["token_strs"]) == pieces["count"]
        chat = smol.ok("/tokenize", messages=HELLO)
        assert chat["tokens"][0] == 1 and chat["max_model_len"] == 512
        assert smol.refused("/tokenize")["message"].startswith("give either")
        assert "0 to 49151" in smol.refused("/detokenize", tokens=[49152])["message"]
        segments = smol.ok("/apply-template", messages=[{"role": "user", "content": "<|im_end|>"}])["segments"]
        assert {"text": "<|im_end|>", "special": False} in [
            {"text": s["text"].strip("user\n"), "special": s["special"]} for s in segments
        ]


@pytest.mark.models
def test_a_model_without_a_template(gemma_path: Any) -> None:
    """C22, C17."""
    from server.serving import config_for, running

    with running(config_for(gemma_path)) as server:
        error = server.refused(CHAT, messages=HELLO)
        assert error["code"] == "template_missing" and "no chat template" in error["message"]
        assert server.ok(COMPLETIONS, prompt="The sky is", max_tokens=2)
        assert server.ok(COMPLETIONS, prompt="", max_tokens=1)["usage"]["prompt_tokens"] == 1  # C43: it runs from BOS
        engine = server.service.roster.models["smol"].engine
        assert engine is not None
        from cutaway.text import ChatTemplate

        engine.template = ChatTemplate(
            "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}x",
            engine.tokenizer,
        )
        error = server.refused(CHAT, messages=[{"role": "system", "content": "a"}, *HELLO])
        assert "System role not supported" in error["message"] and error["type"] == "invalid_request_error"
        assert server.ok(CHAT, messages=HELLO, max_tokens=1)
