"""langchain-openai: chat, streaming, a tool call, a form, an answer left early, errors."""

import sys
from typing import Annotated

import openai
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

url, key, model = sys.argv[1:]


class Forecast(BaseModel):
    days: int = Field(ge=1, le=9)


@tool
def forecast(days: Annotated[int, Field(ge=1, le=9)]) -> str:
    """A forecast for some days."""
    return f"sun for {days} days"


def chat(**fields):
    given = {"model": model, "base_url": f"{url}/v1", "api_key": key, "temperature": 0, "max_retries": 0}
    return ChatOpenAI(**{**given, "max_tokens": 60, **fields})


whole = chat(max_tokens=8).invoke("Say hello.")
assert whole.content and whole.usage_metadata["output_tokens"] <= 8
assert "".join(piece.content for piece in chat(max_tokens=8).stream("Say hello.")) == whole.content
(call, *_) = chat(max_tokens=200).bind_tools([forecast], tool_choice="required").invoke("The weather?").tool_calls
assert call["name"] == "forecast" and isinstance(call["args"]["days"], int)
for method in ("json_schema", "function_calling"):
    answer = chat(max_tokens=200).with_structured_output(Forecast, method=method).invoke("How many days?")
    assert 1 <= answer.days <= 9
for _piece in chat(max_tokens=400).stream("Tell me a story."):
    break
for error, fields, prompt in (
    (openai.AuthenticationError, {"api_key": "another"}, "a"),
    (openai.NotFoundError, {"model": "unheard-of"}, "a"),
    (openai.BadRequestError, {}, "word " * 2000),
):
    try:
        chat(**fields).invoke(prompt)
    except error:
        continue
    raise AssertionError(f"{fields} gave no {error.__name__}")
