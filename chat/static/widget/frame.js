// The widget's frame: one conversation over server-sent events. No cookie: the visitor is a signed token in this frame's
// storage, which browsers keep apart for each site; where there is no storage, it lasts until the page is left.

import { byId, config, el, isSending, newId, onClick, optionsOf, pause, say, sourceTitle, STORAGE_UNAVAILABLE } from "../chat/dom.js";
import { StreamedMarkdown } from "../chat/markdown.js";

const NO_CITATIONS = { turn: "source", numbers: new Set() };
const RETRY_MS = [500, 1000, 2000, 4000, 8000];
// A question that the database refuses is sent until it is taken; one whose answer fell with it is answered anew so often.
const MOST_RERUNS = 8;

const thread = byId("thread");
const field = byId("question");
const send = byId("send");
let kept = { visitor: config.visitor, conversation: null };
let running = null; // { id, after, message, messageId, exchange }

function remember() {
  try { localStorage.setItem(config.store, JSON.stringify(kept)); } catch { /* It lasts until the page is left. */ }
}

function recall() {
  try { kept = { ...kept, ...JSON.parse(localStorage.getItem(config.store)) }; } catch { /* A new visitor. */ }
}

function forget() {
  kept = { visitor: config.visitor, conversation: null };
  remember();
}

class Refusal extends Error {
  constructor(status, body) { super(body.message || say("failed")); this.status = status; this.code = body.code; }
}

/** A request of this visitor. Throws `Refusal` for an answer that is no success, `TypeError` where nobody answers. */
async function call(address, options = {}) {
  const response = await fetch(address, {
    ...options,
    credentials: "omit",
    headers: { Authorization: `Visitor ${kept.visitor}`, "Accept-Language": config.language, ...options.headers },
  });
  if (!response.ok) throw new Refusal(response.status, await response.json().catch(() => ({})));
  return response;
}

const post = (address, body) =>
  call(address, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });

/** A question with its answer: text while it comes, then the server's own sanitised HTML. */
class Exchange {
  constructor(question) {
    byId("welcome").hidden = true;
    this.asked = el("p", { class: "asked" }, question);
    this.answer = el("div", { class: "answer live" });
    this.sources = el("details", { hidden: true });
    thread.append(this.asked, this.answer, this.sources);
    this.asked.scrollIntoView({ block: "start" });
  }

  begin() { this.answer.textContent = ""; }
  add(text) { this.answer.append(text); }

  finish(html, sources) {
    this.answer.classList.remove("live");
    this.answer.innerHTML = html;
    if (!sources?.length) return;
    const options = optionsOf(sources);
    if (options.length) this.offer(options);
    const list = el("ol", {}, ...sources.map((source) => {
      const text = el("blockquote");
      new StreamedMarkdown(text).update(source.text, NO_CITATIONS);
      return el("li", { value: source.n, "data-n": source.n }, sourceTitle(source), text);
    }));
    this.sources.replaceChildren(el("summary", {}, `${say("sources")} (${sources.length})`), list);
    this.sources.hidden = false;
    this.answer.addEventListener("click", (event) => {
      const citation = event.target.closest("a.citation");
      if (!citation) return;
      event.preventDefault();
      this.sources.open = true;
      list.querySelector(`[data-n="${Number(citation.dataset.n)}"]`)?.scrollIntoView({ block: "nearest" });
    });
  }

  /** The list of questions to choose from, as buttons; what stands last in it says that none is meant. */
  offer(options) {
    for (const [at, item] of [...(this.answer.querySelector("ul")?.children ?? [])].entries()) {
      const text = options[at]?.question ?? item.textContent.trim();
      item.replaceChildren(el("button", { type: "button", class: "suggestion", onclick: () => ask(text) }, text));
    }
  }

  note(text, isBad = false) {
    const note = el("p", { class: isBad ? "note bad" : "note", role: isBad ? "alert" : "note" }, text);
    this.sources.after(note);
    note.scrollIntoView({ block: "nearest" });
  }

  takeBack() { for (const part of [this.asked, this.answer, this.sources]) part.remove(); }
}

function setRunning(turn) {
  running = turn;
  send.textContent = turn ? say("stop") : say("send");
  byId("status").textContent = turn ? say("searching") : "";
}

function ask(message) {
  if (running || !message.trim()) return;
  field.value = "";
  setRunning({ id: null, after: 0, message, messageId: newId(), exchange: new Exchange(message), sources: [] });
  follow(running);
}

/** Read a turn to its end through any number of lost connections: sent again under its id, or continued after its last event. */
async function follow(turn) {
  for (let tries = 0; running === turn; tries += 1) {
    turn.waits = false;
    try {
      const response = turn.id
        ? await call(config.urls.events.replace("{id}", turn.id), { headers: { "Last-Event-ID": String(turn.after) } })
        : await post(config.urls.ask, {
          message: turn.message, clientMessageId: turn.messageId, conversationId: kept.conversation, language: config.language,
        });
      for await (const event of events(response.body)) {
        tries = 0;
        if (receive(turn, event)) return;
      }
    } catch (error) {
      if (error instanceof Refusal && error.status < 500) { refused(turn, error); return; }
      turn.waits = error.code === STORAGE_UNAVAILABLE;
    }
    if (running !== turn) return;
    if (turn.waits) byId("status").textContent = say("waiting");
    else if (tries >= RETRY_MS.length) { refused(turn, new Error(say("offline"))); return; }
    await pause(RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]);
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
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
      if (fields.event) yield { id: Number(fields.id), type: fields.event, ...JSON.parse(fields.data) };
    }
  }
}

/** Returns whether it was the last event. */
function receive(turn, event) {
  if (event.id) turn.after = event.id;
  const { exchange } = turn;
  switch (event.type) {
    case "meta":
      turn.id = event.turnId;
      if (kept.conversation !== event.conversationId) { kept.conversation = event.conversationId; remember(); }
      exchange.begin();
      return false;
    case "delta": exchange.add(event.text); byId("status").textContent = ""; return false;
    case "sources": turn.sources = event.sources; return false;
    case "done":
      exchange.finish(event.html, turn.sources);
      if (event.status === "interrupted") exchange.note(say("interrupted"));
      if (event.status === "awaiting_approval") exchange.note(say("approval"));
      break;
    case "error":
      if (event.code === STORAGE_UNAVAILABLE && isToRunAgain(turn, event)) return false;
      exchange.note(event.message, true); break;
    default: return false;
  }
  setRunning(null);
  return true;
}

/** The database is in trouble: the question is asked again under its id, and answered anew where its answer fell with it. */
function isToRunAgain(turn, event) {
  turn.waits = true;
  if (!event.id || !turn.messageId) return !event.id;
  turn.reruns = (turn.reruns ?? 0) + 1;
  turn.id = null;
  turn.after = 0;
  return turn.reruns <= MOST_RERUNS;
}

/** The question was not taken: it goes back into the field, with the reason. */
function refused(turn, error) {
  setRunning(null);
  if (turn.id) { turn.exchange.note(error.message, true); return; }
  turn.exchange.takeBack();
  field.value = field.value || turn.message;
  if (["visitor_token", "widget_closed", "conversation_not_found"].includes(error.code)) forget();
  byId("status").textContent = error.message;
}

/** What was said before the page was loaded again, and the answer that still runs. */
async function restore() {
  if (!kept.conversation) return;
  let found;
  try {
    found = await (await call(config.urls.messages.replace("{id}", kept.conversation))).json();
  } catch (error) {
    if (error instanceof Refusal && error.status < 500) forget();
    return;
  }
  let exchange = null;
  for (const message of found.messages) {
    if (message.role === "user") { exchange = new Exchange(message.content); exchange.turn = message.turn?.id; }
    else exchange?.finish(message.html, message.sources);
  }
  if (found.runningTurn && exchange) {
    setRunning({ id: found.runningTurn.id, after: 0, message: "", messageId: null, exchange, sources: [] });
    follow(running);
  }
}

const tell = (word) => parent.postMessage({ repondant: word }, config.origin);
const close = () => tell("close");

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (running?.waits && !running.id) refused(running, new Error(""));
  else if (running) post(config.urls.stop, { conversationId: kept.conversation }).catch(() => {});
  else ask(field.value);
});
field.addEventListener("keydown", (event) => {
  if (isSending(event)) { event.preventDefault(); if (!running) ask(field.value); }
});
for (const button of document.querySelectorAll(".suggestion")) {
  onClick(button, () => ask(button.textContent));
}
onClick(byId("close"), close);
onClick(byId("new"), () => {
  if (running) return;
  kept.conversation = null;
  remember();
  thread.replaceChildren(byId("welcome"));
  byId("welcome").hidden = false;
  byId("status").textContent = "";
  field.focus();
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
window.addEventListener("message", (event) => {
  if (event.origin === config.origin && event.data?.repondant === "opened") field.focus();
});

// Until here a click would have submitted the form to nowhere, and the question with it.
send.disabled = false;
tell("ready");
recall();
restore();
