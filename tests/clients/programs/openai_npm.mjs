// `openai` for npm.
import OpenAI from "openai";
import { KNOWN, OPEN, TOOL, UNKNOWN, run, site } from "./asking.mjs";

const { address, key, model } = site();
const client = new OpenAI({ baseURL: address, apiKey: key, maxRetries: 0 });
const messages = [{ role: "user", content: KNOWN }];
const said = async (more) => (await client.chat.completions.create({ model, messages, ...more })).choices[0].message.content;

await run({
  models: async () => (await client.models.list()).data[0].id,
  plain: () => said({}),
  stream: async () => {
    let text = "";
    for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) text += chunk.choices[0]?.delta?.content ?? "";
    return text;
  },
  sources: async () => (await client.chat.completions.create({ model, messages })).choices[0].message.annotations[0].url_citation.url,
  tools: () => said({ tools: [TOOL] }),
  stop: () => said({ stop: ["\n"] }),
  follow_up: async () => {
    const first = await client.responses.create({ model, input: OPEN });
    return (await client.responses.create({ model, input: "Et le matériel ?", previous_response_id: first.id })).output_text;
  },
  errors: () => said({ model: UNKNOWN }),
  text: async () => (await client.completions.create({ model, prompt: KNOWN })).choices[0].text,
  responses: async () => (await client.responses.create({ model, input: KNOWN })).output_text,
  wrong_key: () => new OpenAI({ baseURL: address, apiKey: "rsk_wrong", maxRetries: 0 }).models.list(),
});
