// Server-sent events of a response, as frames: {type, id, …}. A comment, sent in silence, is a frame of type "beat".

export async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        const fields = Object.fromEntries(block.split("\n").map((line) => {
          const colon = line.indexOf(": ");
          return [line.slice(0, colon), line.slice(colon + 2)];
        }));
        yield fields.event ? { id: Number(fields.id), type: fields.event, ...JSON.parse(fields.data) } : { type: "beat" };
      }
    }
  } finally {
    reader.cancel().catch(() => { /* It is closed already. */ });
  }
}
