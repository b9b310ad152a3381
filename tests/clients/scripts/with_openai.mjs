// npm's openai: chat, streaming, a tool call, a form, an answer left early, errors as its own classes.
import assert from "node:assert";
import OpenAI from "openai";

const [url, key, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const asked = { model, messages: [{ role: "user", content: "Say hello." }], temperature: 0, max_tokens: 8 };
const schema = {
  type: "object", properties: { days: { type: "integer", minimum: 1, maximum: 9 } }, required: ["days"],
  additionalProperties: false,
};

const whole = await client.chat.completions.create(asked);
const text = whole.choices[0].message.content;
assert(text && whole.usage.completion_tokens <= 8);
let pieces = "";
for await (const chunk of await client.chat.completions.create({ ...asked, stream: true }))
  pieces += chunk.choices[0]?.delta?.content ?? "";
assert.equal(pieces, text);

const tools = [{ type: "function", function: { name: "forecast", parameters: schema } }];
const called = await client.chat.completions.create({ ...asked, max_tokens: 80, tools, tool_choice: "required" });
const { days } = JSON.parse(called.choices[0].message.tool_calls[0].function.arguments);
assert(days >= 1 && days <= 9);
const form = { type: "json_schema", json_schema: { name: "f", schema, strict: true } };
const formed = await client.chat.completions.create({ ...asked, max_tokens: 60, response_format: form });
assert(JSON.parse(formed.choices[0].message.content).days >= 1);
const told = await client.responses.create({ model, input: "Say hello.", max_output_tokens: 16, temperature: 0 });
assert(told.output_text);

const left = await client.chat.completions.create({ ...asked, max_tokens: 400, stream: true });
for await (const _ of left) { left.controller.abort(); break; }

await assert.rejects(client.chat.completions.create({ ...asked, model: "unheard-of" }), OpenAI.NotFoundError);
const long = [{ role: "user", content: "word ".repeat(2000) }];
await assert.rejects(
  client.chat.completions.create({ ...asked, messages: long }),
  (error) => error instanceof OpenAI.BadRequestError && error.code === "context_length_exceeded",
);
const stranger = new OpenAI({ baseURL: `${url}/v1`, apiKey: "another", maxRetries: 0 });
await assert.rejects(stranger.chat.completions.create(asked), OpenAI.AuthenticationError);
