// The AI SDK, by its OpenAI-compatible provider and by its OpenAI one (responses).
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";
import { KNOWN, OPEN, UNKNOWN, run, site } from "./asking.mjs";

const { address, key, model } = site();
const desk = createOpenAICompatible({ name: "desk", baseURL: address, apiKey: key });
const openai = createOpenAI({ baseURL: address, apiKey: key });
const wrong = createOpenAICompatible({ name: "desk", baseURL: address, apiKey: "rsk_wrong" });
const weather = tool({ description: "The weather.", inputSchema: jsonSchema({ type: "object", properties: { city: { type: "string" } } }), execute: async () => "rain" });
const thread = [{ role: "user", content: OPEN }, { role: "assistant", content: "Deux jours." }, { role: "user", content: "Et le matériel ?" }];

await run({
  plain: async () => (await generateText({ model: desk(model), prompt: KNOWN })).text,
  stream: async () => {
    let text = "", failed = null;
    const asked = streamText({ model: desk(model), prompt: KNOWN, onError: ({ error }) => { failed = error; } });
    for await (const piece of asked.textStream) text += piece;
    if (failed) throw failed;
    return text;
  },
  sources: async () => (await generateText({ model: openai.chat(model), prompt: KNOWN })).sources[0].url,
  tools: async () => (await generateText({ model: desk(model), prompt: KNOWN, tools: { weather } })).text,
  stop: async () => (await generateText({ model: desk(model), prompt: KNOWN, stopSequences: ["\n"] })).text,
  follow_up: async () => (await generateText({ model: desk(model), messages: thread })).text,
  errors: async () => (await generateText({ model: desk(UNKNOWN), prompt: KNOWN })).text,
  text: async () => (await generateText({ model: desk.completionModel(model), prompt: KNOWN })).text,
  responses: async () => {
    const { text, sources } = await generateText({ model: openai(model), prompt: KNOWN });
    return `${text} sources: ${sources.length} ${sources[0]?.url}`;
  },
  wrong_key: async () => (await generateText({ model: wrong(model), prompt: KNOWN, maxRetries: 0 })).text,
});
