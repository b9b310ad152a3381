"""litellm: chat, streaming, a tool call, a form, an answer left early, and errors as its own types."""

import json
import sys

import litellm

url, key, model = sys.argv[1:]
HELLO = [{"role": "user", "content": "Say hello."}]
SCHEMA = {
    "type": "object", "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["days"],
    "additionalProperties": False,
}  # fmt: skip
litellm.telemetry = False


def ask(**fields):
    given = {"model": f"openai/{model}", "api_base": f"{url}/v1", "api_key": key, "messages": HELLO, "num_retries": 0}
    return litellm.completion(**{**given, "max_tokens": 8, "temperature": 0, **fields})


whole = ask()
text = whole.choices[0].message.content
assert text and whole.usage.completion_tokens <= 8
pieces = [chunk.choices[0].delta.content or "" for chunk in ask(stream=True)]
assert "".join(pieces) == text and len(pieces) > 2, (pieces, text)

function = {"name": "forecast", "description": "A forecast.", "parameters": SCHEMA}
called = ask(tools=[{"type": "function", "function": function}], tool_choice="required", max_tokens=80)
(call, *_) = called.choices[0].message.tool_calls
assert call.function.name == "forecast" and 1 <= json.loads(call.function.arguments)["days"] <= 9

form = {"type": "json_schema", "json_schema": {"name": "f", "schema": SCHEMA, "strict": True}}
assert 1 <= json.loads(ask(response_format=form, max_tokens=60).choices[0].message.content)["days"] <= 9

for _chunk in ask(stream=True, max_tokens=400):
    break  # the rest is never read

for error, fields in (
    (litellm.ContextWindowExceededError, {"messages": [{"role": "user", "content": "word " * 2000}]}),
    (litellm.AuthenticationError, {"api_key": "another"}),
    (litellm.NotFoundError, {"model": "openai/unheard-of"}),
    (litellm.BadRequestError, {"temperature": -3}),
):
    try:
        ask(**fields)
    except error:
        continue
    except Exception as other:
        raise AssertionError(f"{fields} gave {type(other).__name__}, not {error.__name__}: {other}") from other
    raise AssertionError(f"{fields} was no error")
