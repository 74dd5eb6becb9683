// The widget's frame: the page in small, one conversation over server-sent events. No cookie: the visitor is a signed token in
// this frame's storage, which browsers keep apart for each site; where there is no storage, it lasts until the page is left.

import { Composer } from "../chat/composer.js";
import { announce, byId, config, el, gettext, newId, onClick, PASSING, pause, STORAGE_UNAVAILABLE } from "../chat/dom.js";
import { eventsOf } from "../chat/events.js";
import { closePassage } from "../chat/passage.js";
import { Thread } from "../chat/thread.js";

const RETRY_MS = [500, 1000, 2000, 4000, 8000];
// A question that the database refuses is sent until it is taken; one whose answer fell with it is answered anew so often.
const MOST_RERUNS = 8;
const PERSON_MS = 30_000;
const NO_LONGER = ["visitor_token", "widget_closed", "conversation_not_found"];

const firstVisitor = config.visitor;
let conversation = null;
let running = null; // { id, after, message, messageId, exchange }

const thread = new Thread({
  isRunning: () => Boolean(running),
  ask,
  replace: (_exchange, text, how) => ask(text, how),
  retry: (exchange) => ask(exchange.question),
});
const composer = new Composer({ send: ask, stop });

/** Where this browser lets the frame keep its conversation: until later, until the tab is closed, or nowhere. */
const storage = ["localStorage", "sessionStorage"].map((name) => {
  try {
    window[name].setItem(`${config.store}:try`, "1");
    window[name].removeItem(`${config.store}:try`);
    return window[name];
  } catch { return null; }
}).find(Boolean);

function remember() {
  try { storage?.setItem(config.store, JSON.stringify({ visitor: config.visitor, conversation })); } catch { /* Full: it lasts until the page is left. */ }
}

function recall() {
  try {
    const kept = JSON.parse(storage.getItem(config.store));
    config.visitor = kept.visitor;
    conversation = kept.conversation;
  } catch { /* A new visitor. */ }
}

function forget() {
  config.visitor = firstVisitor;
  conversation = null;
  remember();
}

class Refusal extends Error {
  constructor(status, body) { super(body.message || gettext("La demande a échoué. Réessayez.")); this.status = status; this.code = body.code; }
}

/** A request of this visitor. Throws `Refusal` for an answer that is no success, `TypeError` where nobody answers. */
async function call(address, options = {}) {
  const response = await fetch(address, {
    ...options,
    credentials: "omit",
    headers: { Authorization: `Visitor ${config.visitor}`, "Accept-Language": config.language, ...options.headers },
  });
  if (!response.ok) throw new Refusal(response.status, await response.json().catch(() => ({})));
  return response;
}

const post = (address, body) =>
  call(address, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });

function setRunning(turn) {
  running = turn;
  composer.setRunning(Boolean(turn));
  if (turn) notify("");
}

function notify(message, isCalm = false) {
  const notice = byId("notice");
  notice.replaceChildren(el("p", {}, message));
  notice.classList.toggle("calm", isCalm);
  notice.hidden = !message;
}

function ask(message, { asTyped = false } = {}) {
  if (running) return;
  const exchange = thread.add(message);
  exchange.begin();
  exchange.isNew = true;
  thread.follows = true;
  thread.toBottom();
  composer.clear();
  setRunning({ id: null, after: 0, message, messageId: newId(), asTyped, exchange });
  follow(running);
}

function stop() {
  composer.setStopping();
  if (running?.waits && !running.id) refused(running, new Error(""));
  else post(config.urls.stop, { conversationId: conversation }).catch(() => { /* Its end comes with the stream, or by itself. */ });
}

/** Read a turn to its end through any number of lost connections: sent again under its id, or continued after its last event. */
async function follow(turn) {
  for (let tries = 0; running === turn; tries += 1) {
    turn.waits = false;
    try {
      const response = turn.id
        ? await call(config.urls.events.replace("{id}", turn.id), { headers: { "Last-Event-ID": String(turn.after) } })
        : await post(config.urls.ask, {
          message: turn.message, clientMessageId: turn.messageId, conversationId: conversation, language: config.language, ...(turn.asTyped && { asTyped: true }),
        });
      notify("");
      for await (const event of eventsOf(response.body)) {
        tries = 0;
        if (receive(turn, event)) return;
      }
    } catch (error) {
      if (error instanceof Refusal && error.status < 500) { refused(turn, error); return; }
      turn.waits = PASSING.includes(error.code);
    }
    if (running !== turn) return;
    if (turn.waits) notify(gettext("Le service est occupé ou momentanément indisponible. Votre question est gardée : elle repart d’elle-même."), true);
    else if (tries >= RETRY_MS.length) { refused(turn, new Error(gettext("Le serveur ne répond pas. Vérifiez votre connexion, puis réessayez."))); return; }
    await pause(RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]);
  }
}

/** Returns whether it was the last event. */
function receive(turn, event) {
  if (event.id) turn.after = event.id;
  const { exchange } = turn;
  switch (event.type) {
    case "meta":
      turn.id = event.turnId;
      if (conversation !== event.conversationId) {
        conversation = event.conversationId;
        remember();
        if (!storage) notify(gettext("Votre navigateur ne garde rien ici : quittez la page, et cette conversation s’oublie."), true);
      }
      exchange.begin(event.turnId);
      return false;
    case "delta": exchange.addText(event.text); return false;
    case "restart": exchange.forgetText(); return false;
    case "sources": exchange.setSources(event.sources); return false;
    case "tool": exchange.setTool(event); return false;
    case "done":
      if (event.status === "awaiting_approval") exchange.fail(gettext("Cette réponse demande un accord, qui ne peut pas être donné ici.")); else exchange.finish(event);
      announce(gettext("Réponse : {text}", { text: exchange.prose.textContent }));
      break;
    case "error":
      if (event.code === STORAGE_UNAVAILABLE && isToRunAgain(turn, event)) return false;
      exchange.fail(event.message);
      announce(event.message);
      break;
    default: return false;
  }
  setRunning(null);
  thread.setRequests(thread.requests);
  thread.grown();
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
  if (turn.id) { turn.exchange.fail(error.message); return; }
  thread.remove(turn.exchange);
  composer.restore(turn.message);
  if (NO_LONGER.includes(error.code)) forget();
  notify(error.message);
}

/** What was said before the page was loaded again, and the answer that still runs. */
async function restore() {
  if (!conversation) return;
  let found;
  try {
    found = await (await call(config.urls.thread.replace("{id}", conversation))).json();
  } catch (error) {
    if (error instanceof Refusal && error.status < 500) forget();
    return;
  }
  if (running) return;
  const id = found.runningTurn?.id;
  thread.load(found, id);
  const exchange = id && thread.ofTurn(id);
  if (!exchange) return;
  setRunning({ id, after: 0, message: "", messageId: null, exchange });
  follow(running);
}

/** A person's answer comes by itself to whoever waits for it. */
setInterval(async () => {
  const asked = conversation;
  if (!thread.awaitsPerson() || running || document.hidden) return;
  const found = await call(config.urls.thread.replace("{id}", asked)).then((response) => response.json(), () => null);
  if (found && !running && asked === conversation) thread.setRequests(found.requests);
}, PERSON_MS);

const tell = (word) => parent.postMessage({ repondant: word }, config.origin);
const close = () => tell("close");

for (const button of document.querySelectorAll("[data-question]")) onClick(button, () => ask(button.dataset.question));
onClick(byId("close"), close);
onClick(byId("new"), () => {
  if (running) return;
  conversation = null;
  remember();
  closePassage({ restoreFocus: false });
  thread.clear();
  notify("");
  composer.focus();
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !document.querySelector("dialog[open]")) close(); });
window.addEventListener("message", (event) => {
  if (event.origin === config.origin && event.data?.repondant === "opened") composer.focus();
});

recall();
composer.open(conversation);
tell("ready");
restore();
