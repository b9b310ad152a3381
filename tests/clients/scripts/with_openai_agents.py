"""openai-agents: chat, streaming, a tool call, a form, by chat completions and by responses."""

import asyncio
import sys
from typing import Annotated

import agents
import openai
from pydantic import BaseModel, Field

url, key, model = sys.argv[1:]
agents.set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
seen = []


class Forecast(BaseModel):
    days: int = Field(ge=1, le=9)


@agents.function_tool
def forecast(days: Annotated[int, Field(ge=1, le=9)]) -> str:
    """A forecast for some days."""
    seen.append(days)
    return f"sun for {days} days"


def agent(kind, most=200, choice=None, **fields):
    settings = agents.ModelSettings(temperature=0, max_tokens=most, tool_choice=choice)
    return agents.Agent(name="a", model=kind(model, openai_client=client), model_settings=settings, **fields)


async def main():
    for kind in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
        whole = (await agents.Runner.run(agent(kind, most=200), "Say hello.")).final_output
        assert whole
        run = agents.Runner.run_streamed(agent(kind, most=200), "Say hello.")
        assert [event.type async for event in run.stream_events()] and run.final_output == whole
        user = agent(kind, choice="required", tools=[forecast], tool_use_behavior="stop_on_first_tool")
        assert "sun for" in (await agents.Runner.run(user, "The weather?")).final_output and seen.pop()
        answer = (await agents.Runner.run(agent(kind, output_type=Forecast), "How many days?")).final_output
        assert 1 <= answer.days <= 9


asyncio.run(main())
