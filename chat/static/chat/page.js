// The chat page: which conversation is open, and what its parts tell each other.
// A question leaves the field when it is sent and is kept in session storage until the server acknowledged it; a reload
// in between sends it again under the same id. Nothing typed is lost: what the server refuses comes back to the field.

import { createConversation, loadThread } from "./api.js";
import { closeSidebar } from "./chrome.js";
import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { Conversations } from "./conversations.js";
import { announce, byId, config, el, newId, say } from "./dom.js";
import { closePassage } from "./passage.js";
import { Thread } from "./thread.js";

const LATE_TITLE_MS = 4_000;
const PENDING = "repondant.pending.";

let conversationId = null;
let connection = null;
let exchange = null;
let opening = 0;
let isCreating = false;

const thread = new Thread({ ask: (question) => ask(question), edit: (question) => composer.restore(question) });
const composer = new Composer({ send: (text) => ask(text, { fromField: true }), stop });
const conversations = new Conversations({
  open: (id) => open(id),
  deleted: (id) => { announce(say("deleted")); if (id === conversationId) open(null); },
  renamed: (id, title) => { if (id === conversationId) showTitle(title); },
  failed: (error) => notify(error.message),
});

// Opening a conversation.

async function open(id, { push = true } = {}) {
  const request = opening += 1;
  leave();
  conversationId = id;
  if (push) history.pushState({}, "", id ? `${config.urls.page}c/${id}/` : config.urls.page);
  conversations.setCurrent(id);
  showTitle(id ? conversations.title(id) : "");
  composer.open(id);
  closeSidebar();
  if (!matchMedia("(hover: none)").matches) composer.focus();
  if (!id) return;
  connect(id);
  await loadMessages(id, request);
  if (request === opening) sendPending();
}

function leave() {
  connection?.close();
  connection = exchange = null;
  thread.clear();
  composer.setRunning(false);
  closePassage({ restoreFocus: false });
  hideNotice();
}

async function loadMessages(id, request) {
  try {
    const { messages, runningTurn } = await loadThread(id);
    if (request !== opening) return;
    thread.load(messages, runningTurn?.id);
    if (!runningTurn) return;
    exchange = thread.ofTurn(runningTurn.id) ?? thread.add("", runningTurn.id);
    composer.setRunning(true);
    connection.resume(runningTurn.id);
  } catch (error) {
    if (request !== opening) return;
    if (error.status === 404) { await open(null); notify(say("conversationMissing")); return; }
    notify(`${say("loadFailed")} ${error.message}`, { label: say("retry"), action: () => open(id, { push: false }) });
  }
}

function connect(id) {
  connection = new Connection(id, {
    event: receive,
    lost: () => notify(say("reconnecting"), { label: say("reconnectNow"), action: () => connection?.reconnect(), isConnection: true }),
    back: () => { if (byId("notice").hasAttribute("data-connection")) hideNotice(); },
    gone: (turn) => { if (turn && !turn.id) takeBack(turn.message); composer.setRunning(false); notify(say("conversationMissing")); },
  });
}

// Asking.

async function ask(question, { fromField = false } = {}) {
  if (composer.running) return;
  hideNotice();
  exchange = thread.add(question);
  exchange.begin();
  exchange.isNew = true;
  thread.follows = true;
  thread.toBottom();
  composer.setRunning(true);
  if (!conversationId && !await startConversation(question, fromField)) return;
  const pending = { message: question, clientMessageId: newId() };
  keepPending(pending);
  if (fromField) composer.clear();
  connection.ask(pending.message, pending.clientMessageId);
}

/** The first question opens the conversation. The field keeps the text until that succeeded. */
async function startConversation(question, fromField) {
  const request = opening;
  isCreating = true;
  try {
    const { id } = await createConversation();
    if (request !== opening || !isCreating) return false;
    conversationId = id;
    if (fromField) composer.clear();
    composer.draftKey = id;
    history.pushState({}, "", `${config.urls.page}c/${id}/`);
    conversations.setCurrent(id);
    connect(id);
    return true;
  } catch (error) {
    if (request === opening) { takeBack(question); notify(error.message); }
    return false;
  } finally {
    isCreating = false;
  }
}

function stop() {
  composer.setStopping();
  if (isCreating) { isCreating = false; takeBack(exchange.question); return; }
  if (connection && !connection.stop()) takeBack(exchange.question);
}

/** The question was not accepted: off the thread, back into the field. */
function takeBack(question) {
  if (exchange) thread.remove(exchange);
  exchange = null;
  dropPending();
  composer.setRunning(false);
  composer.restore(question);
}

function keepPending(pending) {
  try { sessionStorage.setItem(PENDING + conversationId, JSON.stringify(pending)); } catch { /* It lasts until the page is left. */ }
}

function dropPending() {
  try { sessionStorage.removeItem(PENDING + conversationId); } catch { /* Nothing was kept. */ }
}

/** A question that a reload overtook is sent again; the server knows its id if it had arrived. */
function sendPending() {
  let pending = null;
  try { pending = JSON.parse(sessionStorage.getItem(PENDING + conversationId)); } catch { return; }
  if (!pending || composer.running) return;
  composer.setRunning(true);
  connection.ask(pending.message, pending.clientMessageId);
}

// Receiving.

function receive(frame, turn) {
  switch (frame.type) {
    case "meta": return started(frame);
    case "delta": return exchange?.addText(frame.text);
    case "sources": return exchange?.setSources(frame.sources);
    case "done": return finished(frame);
    case "error": return failed(frame, turn);
    default: return undefined;
  }
}

function started(frame) {
  dropPending();
  const known = thread.ofTurn(frame.turnId);
  if (known && exchange && known !== exchange && !exchange.turnId) thread.remove(exchange);
  exchange = known ?? exchange ?? thread.add(frame.question, frame.turnId);
  exchange.begin(frame.turnId);
  conversations.touch(conversationId, frame.title);
  showTitle(frame.title);
}

function finished(frame) {
  composer.setRunning(false);
  if (frame.title) { conversations.touch(conversationId, frame.title); showTitle(frame.title); }
  // A title that the model writes comes after its answer.
  const asked = conversationId;
  setTimeout(async () => {
    await conversations.load();
    if (asked === conversationId) showTitle(conversations.title(asked));
  }, LATE_TITLE_MS);
  if (!exchange) return;
  exchange.finish(frame);
  thread.grown();
  announce(say("answerReady", { text: exchange.prose.textContent }));
}

function failed(frame, turn) {
  if (!turn.id) {
    takeBack(turn.message);
    notify(frame.message);
    if (frame.code === "turn_running") loadMessages(conversationId, opening);
    return;
  }
  composer.setRunning(false);
  // A refusal to resume says nothing about the turn: what is stored does.
  if (!frame.id) { loadMessages(conversationId, opening); return; }
  exchange?.fail(frame.message);
  announce(frame.message);
}

// Title and notices.

function showTitle(title) {
  byId("title").textContent = title || config.deploymentName;
  document.title = title ? `${title} · ${config.deploymentName}` : `${config.deploymentName} · Répondant`;
}

function notify(message, { label = say("dismiss"), action = hideNotice, isConnection = false } = {}) {
  const notice = byId("notice");
  notice.replaceChildren(el("p", {}, message), el("button", { type: "button", onclick: action }, label));
  notice.classList.toggle("calm", isConnection);
  notice.toggleAttribute("data-connection", isConnection);
  notice.hidden = false;
}

function hideNotice() {
  const notice = byId("notice");
  notice.hidden = true;
  notice.removeAttribute("data-connection");
}

// Start.

for (const button of document.querySelectorAll("[data-new-conversation]")) button.addEventListener("click", () => open(null));
for (const button of document.querySelectorAll("[data-question]")) button.addEventListener("click", () => ask(button.dataset.question));
window.addEventListener("popstate", () => {
  const found = /\/c\/([0-9a-f-]{36})\/$/.exec(location.pathname);
  open(found ? found[1] : null, { push: false });
});

conversations.load().then(() => { if (conversationId) showTitle(conversations.title(conversationId)); });
open(config.conversation, { push: false });
if (config.conversationMissing) {
  history.replaceState({}, "", config.urls.page);
  notify(say("conversationMissing"));
}
