"""A streamed request to a server with OpenAI's chat API, with the times of everything received."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from cutaway.bench.conversations import Question
from cutaway.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Answer:
    """Seconds on one clock. sent: when the request was sent. arrivals: times of the pieces of text. ended: the end of
    the stream. tokens: of the answer according to the server, otherwise the number of pieces. error: "" or the
    cause."""

    sent: float
    arrivals: tuple[float, ...]
    ended: float
    prompt_tokens: int
    tokens: int
    error: str = ""

    @property
    def first(self) -> float:
        """Seconds to the first piece."""
        return self.arrivals[0] - self.sent

    @property
    def whole(self) -> float:
        return self.ended - self.sent

    @property
    def per_token(self) -> float | None:
        """Seconds per token after the first."""
        return (self.arrivals[-1] - self.arrivals[0]) / (self.tokens - 1) if self.tokens > 1 else None

    @property
    def gaps(self) -> list[float]:
        """Seconds between pieces."""
        return [b - a for a, b in zip(self.arrivals, self.arrivals[1:], strict=False)]


@dataclass(frozen=True, slots=True)
class Target:
    """A server. url: up to and with /v1. extra: fields of every request that are not OpenAI's own."""

    url: str
    model: str
    extra: Mapping[str, Any]

    async def ask(
        self, client: httpx.AsyncClient, question: Question, clock: Callable[[], float] = time.perf_counter
    ) -> Answer:
        """Never raises for failures of the server or the network; they are an Answer with an error."""
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": question.text}],
            "max_tokens": question.answer_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.extra,
        }
        sent = clock()
        heard = _Heard()
        try:
            async with client.stream("POST", f"{self.url}/chat/completions", json=body) as response:
                if response.status_code != 200:
                    heard.error = f"status {response.status_code}: {_message(await response.aread())}"
                else:
                    async for line in response.aiter_lines():
                        heard.line(line, clock())
        except httpx.HTTPError as error:
            heard.error = f"{type(error).__name__}: {error}".rstrip(": ")
        if not heard.error and not heard.arrivals:
            heard.error = "no text came"
        if not heard.error and not heard.done:
            heard.error = "the stream broke off"
        tokens = heard.usage.get("completion_tokens") or len(heard.arrivals)
        prompt = heard.usage.get("prompt_tokens") or question.tokens
        return Answer(sent, tuple(heard.arrivals), clock(), prompt, tokens, heard.error)


class _Heard:
    """The contents of a stream of server-sent events so far."""

    def __init__(self) -> None:
        self.arrivals: list[float] = []
        self.usage: dict[str, int] = {}
        self.error = ""
        self.done = False

    def line(self, line: str, now: float) -> None:
        if not line.startswith("data:"):
            return
        data = line[5:].strip()
        if data == "[DONE]":
            self.done = True
            return
        try:
            event = json.loads(data)
        except ValueError:
            self.error = f"not JSON: {data[:80]}"
            return
        if "error" in event:
            self.error = f"in the stream: {_message(data.encode())}"
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices") or []:
            delta = choice.get("delta") or {}
            if delta.get("content") or delta.get("reasoning_content") or delta.get("tool_calls"):
                self.arrivals.append(now)


def _message(body: bytes) -> str:
    """The message of an error body."""
    text = body.decode("utf-8", "replace")
    try:
        error = json.loads(text)["error"]
        return str(error["message"] if isinstance(error, dict) else error)[:200]
    except (ValueError, KeyError, TypeError):
        return text[:200]


def base_url(url: str) -> str:
    """The URL with /v1 at its end. Raises ParameterError if it is not an http address."""
    if not url.startswith(("http://", "https://")):
        raise ParameterError(f"url is {url!r}; it must begin with http:// or https://")
    stripped = url.rstrip("/")
    return stripped if stripped.endswith("/v1") else f"{stripped}/v1"


def first_model(url: str, headers: Mapping[str, str]) -> str:
    """The first model that the server lists. Raises ParameterError if it lists none or cannot be reached."""
    try:
        response = httpx.get(f"{url}/models", headers=dict(headers), timeout=30)
        response.raise_for_status()
        return str(response.json()["data"][0]["id"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        raise ParameterError(
            f"{url}/models gives no model: {error}", hint="is the server running? give a model with --model"
        ) from error
