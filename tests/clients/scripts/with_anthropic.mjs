// npm's @anthropic-ai/sdk: a message, streaming, a tool call, an answer left early, errors as its own classes.
import assert from "node:assert";
import Anthropic from "@anthropic-ai/sdk";

const [url, key, model] = process.argv.slice(2);
const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const asked = { model, messages: [{ role: "user", content: "Say hello." }], temperature: 0, max_tokens: 8 };

const whole = await client.messages.create(asked);
assert(whole.content[0].text && whole.usage.output_tokens <= 8);
const stream = client.messages.stream(asked);
let pieces = "";
stream.on("text", (piece) => { pieces += piece; });
const last = await stream.finalMessage();
assert.equal(pieces, whole.content[0].text);
assert.equal(last.stop_reason, whole.stop_reason);

const input_schema = {
  type: "object", properties: { days: { type: "integer", minimum: 1, maximum: 9 } }, required: ["days"],
};
const tools = [{ name: "forecast", description: "A forecast.", input_schema }];
const called = await client.messages.create({ ...asked, max_tokens: 100, tools, tool_choice: { type: "any" } });
const use = called.content.find((block) => block.type === "tool_use");
assert(use.name === "forecast" && use.input.days >= 1 && use.input.days <= 9);
assert((await client.messages.countTokens({ model, messages: asked.messages })).input_tokens > 0);

const left = client.messages.stream({ ...asked, max_tokens: 400 });
left.on("error", () => {});
left.on("abort", () => {});
for await (const _ of left) break;
left.abort();

await assert.rejects(client.messages.create({ ...asked, model: "unheard-of" }), Anthropic.NotFoundError);
const long = [{ role: "user", content: "word ".repeat(2000) }];
await assert.rejects(client.messages.create({ ...asked, messages: long }), Anthropic.BadRequestError);
const stranger = new Anthropic({ baseURL: url, apiKey: "another", maxRetries: 0 });
await assert.rejects(stranger.messages.create(asked), Anthropic.AuthenticationError);
