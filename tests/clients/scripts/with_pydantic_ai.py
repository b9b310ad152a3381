"""pydantic-ai: chat, streaming, a tool call, forms by a tool and by a JSON schema, errors."""

import asyncio
import sys

from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

url, key, model = sys.argv[1:]


class Forecast(BaseModel):
    days: int = Field(ge=1, le=9)


def agent(output=str, name=model, key=key, most=60):
    chat = OpenAIChatModel(name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key=key))
    return Agent(chat, output_type=output, model_settings={"max_tokens": most, "temperature": 0})


async def streamed():
    async with agent(most=8).run_stream("Say hello.") as run:
        return "".join([piece async for piece in run.stream_text(delta=True)])


async def main():
    whole = (await agent(most=8).run("Say hello.")).output
    assert whole
    assert await streamed() == whole
    for output in (ToolOutput(Forecast), NativeOutput(Forecast)):
        assert 1 <= (await agent(output, most=100).run("How many days?")).output.days <= 9
    for status, fields in ((401, {"key": "another"}), (404, {"name": "unheard-of"})):
        try:
            await agent(**fields).run("a")
        except ModelHTTPError as error:
            assert error.status_code == status
            continue
        raise AssertionError(f"{fields} was no error")


asyncio.run(main())
