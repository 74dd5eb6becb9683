// The chat page: which conversation is open, and what its parts tell each other.
// A question leaves the field when it is sent and is kept in session storage until the server acknowledged it; a reload
// in between sends it again under the same id. Nothing typed is lost: what the server refuses comes back to the field.

import { ANSWERED, createConversation, loadThread, NOBODY, showVersion } from "./api.js";
import { closeSidebar, showSidebar } from "./chrome.js";
import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { Conversations } from "./conversations.js";
import { announce, byId, config, el, gettext, newId, onClick, PASSING, pause, recall, remember, STORAGE_UNAVAILABLE } from "./dom.js";
import { closePassage } from "./passage.js";
import { onAskPerson, onCopyAll, setMenu } from "./menu.js";
import { Thread } from "./thread.js";

const LATE_TITLE_MS = 4_000;
const STORAGE_RETRY_MS = 2_000;
const PERSON_MS = 30_000;
const PENDING = "repondant.pending.";
const LOST = gettext("Connexion perdue. Nouvel essai en cours ; rien n’est perdu.");
const WAITING = gettext("Le service est occupé ou momentanément indisponible. Votre question est gardée : elle repart d’elle-même.");
const MISSING = gettext("Cette conversation n’existe pas ou n’est pas la vôtre. En voici une nouvelle.");

let conversationId = null;
let connection = null;
let exchange = null;
let opening = 0;
let creating = null; // The attempt to open a conversation, while it lasts.

const thread = new Thread({
  isRunning: () => composer.running,
  ask: (text) => ask(text),
  replace: (replaced, text, options) => ask(text, { ...options, replaced }),
  retry,
  show: switchTo,
  decide,
});
const composer = new Composer({ send: (text) => ask(text, { fromField: true }), stop, edit: () => !composer.running && thread.editLast() });
const conversations = new Conversations({
  open: (id) => open(id),
  deleted: (ids) => { announce(ids.length === 1 ? gettext("Conversation supprimée.") : gettext("{count} conversations supprimées.", { count: ids.length })); if (ids.includes(conversationId)) open(null); composer.keepFocus(); },
  renamed: (id, title) => { if (id === conversationId) showTitle(title); },
  failed: notifyFailed,
});

// Opening a conversation.

/** With a turn, what was said there is shown. */
async function open(id, { push = true } = {}) {
  const request = opening += 1;
  leave();
  conversationId = id;
  if (push) history.pushState({}, "", id ? `${config.urls.page}c/${id}/` : config.urls.page);
  conversations.setCurrent(id);
  showTitle(id ? conversations.title(id) : "");
  setMenu(null);
  composer.open(id);
  closeSidebar();
  if (!matchMedia("(hover: none)").matches) composer.focus();
  if (!id) return;
  connect(id);
  await loadMessages(id, request);
  if (request !== opening) return;
  sendPending();
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
    const loaded = await loadThread(id);
    if (request === opening) { hideConnectionNotice(); show(loaded); }
  } catch (error) {
    if (request !== opening) return;
    if (error.status === 404) { await open(null); notify(MISSING); return; }
    if (error.code === STORAGE_UNAVAILABLE || error.status === NOBODY) {
      notifyConnection(error.status === NOBODY ? LOST : gettext("Le service est occupé ou momentanément indisponible. La conversation s’affichera d’elle-même."), () => open(id, { push: false }));
      await pause(STORAGE_RETRY_MS);
      if (request === opening) await loadMessages(id, request);
      return;
    }
    notify(`${gettext("La conversation n’a pas pu être chargée.")} ${error.message}`, { label: gettext("Réessayer"), action: () => open(id, { push: false }) });
  }
}

/** The thread as the server has it, and its running turn followed. */
function show(loaded) {
  const { title, messages, runningTurn } = loaded;
  thread.load(loaded, runningTurn?.id);
  setMenu(messages.length ? conversationId : null);
  if (title) showTitle(title);
  if (!runningTurn) return;
  exchange = thread.ofTurn(runningTurn.id) ?? thread.add("", runningTurn.id);
  composer.setRunning(true);
  connection.resume(runningTurn.id);
}

/** What this page asks is told to the other tabs that show the conversation, and they follow it. */
const tabs = "BroadcastChannel" in window ? new BroadcastChannel("repondant") : null;
tabs?.addEventListener("message", ({ data }) => { if (data === conversationId) refresh({ evenHidden: true }); });

/** Another tab may have asked, or shown another version: whoever comes back sees what the next question would follow. */
async function refresh({ evenHidden = false } = {}) {
  if ((document.hidden && !evenHidden) || !connection || composer.running || creating) return;
  const request = opening;
  const loaded = await loadThread(conversationId).catch(() => null);
  if (!loaded || request !== opening || composer.running) return;
  const stored = loaded.messages.filter((message) => message.role === "user").map((message) => message.turn.id);
  if (stored.join() !== thread.turnIds().join()) show(loaded); else thread.setRequests(loaded.requests);
}

function connect(id) {
  connection = new Connection(id, {
    event: receive,
    lost: () => notifyConnection(LOST, () => connection?.reconnect()),
    waiting: () => notifyConnection(WAITING, () => connection?.reconnect()),
    back: hideConnectionNotice,
    gone: (turn) => { if (turn && !turn.id) takeBack(turn.message); composer.setRunning(false); notify(MISSING); },
  });
}

// Asking.

/** With `replaced` (an exchange) the question is another version of that one, and what followed it leaves the screen; `asTyped`: not read otherwise. */
async function ask(question, { fromField = false, replaced = null, asTyped = false } = {}) {
  if (composer.running) return;
  hideNotice();
  exchange = thread.addNew(question, replaced);
  exchange.replaced = replaced;
  exchange.begin();
  exchange.isNew = true;
  thread.follows = true;
  thread.toBottom();
  composer.setRunning(true);
  composer.keepFocus();
  if (!conversationId && !await startConversation(question, fromField)) return;
  const pending = { message: question, clientMessageId: newId(), replaces: replaced?.turnId ?? null, asTyped };
  remember(PENDING + conversationId, JSON.stringify(pending));
  if (fromField) composer.clear();
  connection.ask(pending);
}

/** Run an unfinished turn again: tools that have run do not run twice. Where the conversation has gone on, ask another version. */
function retry(unfinished) {
  if (composer.running || !connection) return;
  if (!thread.isLast(unfinished)) { ask(unfinished.question, { replaced: unfinished }); return; }
  hideNotice();
  exchange = unfinished;
  thread.follows = true;
  composer.setRunning(true);
  // Its button goes as soon as the server answers.
  if (unfinished.element.contains(document.activeElement)) composer.takeFocus();
  connection.resume(unfinished.turnId, { isAgain: true });
}

/** Show the branch of another version of a question, where the reader is looking. */
async function switchTo(turnId, direction) {
  if (composer.running) return;
  const request = opening;
  try {
    const loaded = await showVersion(conversationId, turnId);
    if (request !== opening) return;
    thread.load(loaded, null);
    const shown = thread.ofTurn(turnId);
    thread.follows = false;
    shown?.element.scrollIntoView({ block: "nearest" });
    shown?.asked.focusStep(direction);
  } catch (error) {
    if (request === opening) notifyFailed(error);
  }
}

/** The first question opens the conversation. The field keeps the text until that succeeded. */
async function startConversation(question, fromField) {
  const request = opening;
  const attempt = creating = {};
  try {
    const id = await createdConversation(attempt);
    if (request !== opening || creating !== attempt) return false;
    hideConnectionNotice();
    conversationId = id;
    if (fromField) composer.clear();
    composer.draftKey = id;
    history.pushState({}, "", `${config.urls.page}c/${id}/`);
    conversations.setCurrent(id);
    connect(id);
    return true;
  } catch (error) {
    if (request === opening && creating === attempt) { takeBack(question); notifyFailed(error); }
    return false;
  } finally {
    if (creating === attempt) creating = null;
  }
}

/** The id of a new conversation; while nobody answers, or what is in the way passes by itself, it is asked for again, as long as the attempt stands. */
async function createdConversation(attempt) {
  for (;;) {
    let isAlone = false;
    try {
      return (await createConversation()).id;
    } catch (error) {
      isAlone = error.status === NOBODY;
      if (!(isAlone || PASSING.includes(error.code)) || creating !== attempt) throw error;
    }
    notifyConnection(isAlone ? LOST : WAITING, stop);
    await pause(STORAGE_RETRY_MS);
    if (creating !== attempt) return null;
  }
}

function stop() {
  composer.setStopping();
  if (creating) { creating = null; hideConnectionNotice(); takeBack(exchange.question); return; }
  if (!connection || connection.stop()) return;
  hideConnectionNotice();
  // It never left the page: a new question goes back to the field, a turn that was to be taken up again stands as it was.
  if (exchange.turnId) composer.setRunning(false); else takeBack(exchange.question);
}

/** The question was not accepted: off the thread, back into the field. */
function takeBack(question) {
  const wasVersion = Boolean(exchange?.replaced);
  if (exchange) thread.remove(exchange);
  exchange = null;
  dropPending();
  composer.setRunning(false);
  composer.restore(question);
  // What the version was to replace stands unchanged on the server.
  if (wasVersion) loadMessages(conversationId, opening);
}

function dropPending() {
  remember(PENDING + conversationId, "");
}

/** A question that a reload overtook is sent again; the server knows its id if it had arrived. */
function sendPending() {
  const pending = JSON.parse(recall(PENDING + conversationId) || "null");
  if (!pending || composer.running) return;
  composer.setRunning(true);
  const replaced = (pending.replaces && thread.ofTurn(pending.replaces)) || null;
  exchange = thread.addNew(pending.message, replaced);
  exchange.replaced = replaced;
  exchange.begin();
  connection.ask(pending);
}

// Receiving.

function receive(frame, turn) {
  hideNoticeUntil("answered", "online");
  switch (frame.type) {
    case "meta": return started(frame);
    case "delta": return exchange?.addText(frame.text);
    case "restart": return exchange?.forgetText();
    case "sources": return exchange?.setSources(frame.sources);
    case "tool": return exchange?.setTool(frame);
    case "done": return frame.status === "awaiting_approval" ? paused() : finished(frame);
    case "error": return failed(frame, turn);
    default: return undefined;
  }
}

function started(frame) {
  dropPending();
  if (exchange?.isNew) tabs?.postMessage(conversationId);
  const known = thread.ofTurn(frame.turnId);
  if (known && exchange && known !== exchange && !exchange.turnId) thread.remove(exchange);
  exchange = known ?? exchange ?? thread.add(frame.question, frame.turnId);
  exchange.begin(frame.turnId);
  if (exchange.replaced?.turnId) countVersion(exchange);
  setMenu(conversationId);
  conversations.touch(conversationId, frame.title);
  showTitle(frame.title);
}

/** The new version is the last of those at its place, and the one that is shown. */
function countVersion(shown) {
  const { turnId, asked } = shown.replaced;
  const turnIds = [...(asked.versions?.turnIds ?? [turnId]), shown.turnId];
  shown.asked.setVersions({ position: turnIds.length, turnIds });
  shown.replaced = null;
}

function finished(frame) {
  composer.setRunning(false);
  if (frame.title) { conversations.touch(conversationId, frame.title); showTitle(frame.title); }
  // A title that the model writes comes after its answer.
  const asked = conversationId;
  setTimeout(async () => {
    await conversations.load();
    const title = conversations.title(asked);
    if (asked === conversationId && title) showTitle(title);
  }, LATE_TITLE_MS);
  if (!exchange) return;
  exchange.finish(frame);
  thread.setRequests(thread.requests);
  thread.grown();
  announce(exchange.toTell({ isWhole: true }));
}

/** A tool waits for the reader; asking something else is a refusal, so the field is free. */
function paused() {
  composer.setRunning(false);
  exchange?.pause();
  announce(gettext("Un outil demande votre accord avant de continuer."));
}

function decide(decided, toolCallId, isApproved, isLast) {
  if (!connection) return;
  if (isLast) { exchange = decided; composer.setRunning(true); }
  composer.keepFocus();
  connection.decide(decided.turnId, toolCallId, isApproved, isLast);
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
  if (!frame.id) { if (turn.isAgain) notify(frame.message); loadMessages(conversationId, opening); return; }
  exchange?.fail(frame.message);
  announce(frame.message);
}

// Title and notices.

function showTitle(title) {
  byId("title").textContent = title || config.deploymentName;
  document.title = title ? `${title} · ${config.deploymentName}` : `${config.deploymentName} · Répondant`;
}

/** `until`: what takes it away by itself, a "connection" that is back, a server that has "answered" or the network that is "online". */
function notify(message, { label = gettext("Fermer"), action = hideNotice, until = "" } = {}) {
  const notice = byId("notice");
  notice.replaceChildren(el("p", {}, message), el("button", { type: "button", onclick: action }, label));
  notice.classList.toggle("calm", until === "connection" || until === "online");
  notice.dataset.until = until;
  notice.hidden = false;
}

/** What was asked for failed; where the server was away or in trouble, the alarm goes as soon as it answers. */
function notifyFailed(error) {
  notify(error.message, { until: error.status === NOBODY || error.status >= 500 ? "answered" : "" });
}

function notifyConnection(message, action) {
  notify(message, { label: action === stop ? gettext("Annuler") : gettext("Réessayer maintenant"), action, until: "connection" });
}

function hideConnectionNotice() {
  hideNoticeUntil("connection", "answered");
}

function hideNoticeUntil(...come) {
  if (come.includes(byId("notice").dataset.until)) hideNotice();
}

function hideNotice() {
  const notice = byId("notice");
  if (notice.contains(document.activeElement)) composer.takeFocus();
  notice.hidden = true;
  delete notice.dataset.until;
}

/** Said before anything is asked: a question of now leaves when the network is back. */
function sayOffline() {
  if (!navigator.onLine && byId("notice").hidden) notify(gettext("Vous êtes hors ligne. Votre question partira dès le retour du réseau."), { until: "online" });
}

// The keyboard: as in other programs of this kind.

document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || document.querySelector("dialog:modal")) return;
  const key = event.key.toLowerCase();
  if (key === "k" && !event.shiftKey) { event.preventDefault(); showSidebar(); conversations.focusSearch(); }
  if (key === "o" && event.shiftKey) { event.preventDefault(); open(null).then(() => composer.focus()); }
});

// Start.

for (const button of document.querySelectorAll("[data-new-conversation]")) onClick(button, () => open(null));
for (const button of document.querySelectorAll("[data-question]")) onClick(button, () => ask(button.dataset.question));
onCopyAll(() => thread.copyAll());
onAskPerson(() => thread.exchanges.at(-1)?.help);
// A person's answer comes by itself to whoever waits for it.
setInterval(() => { if (thread.awaitsPerson()) refresh(); }, PERSON_MS);
document.addEventListener("visibilitychange", () => refresh());
window.addEventListener("offline", sayOffline);
window.addEventListener("online", () => hideNoticeUntil("online"));
window.addEventListener(ANSWERED, () => hideNoticeUntil("answered", "online"));
window.addEventListener("popstate", () => {
  const id = /\/c\/([0-9a-f-]{36})\/$/.exec(location.pathname)?.[1] ?? null;
  // A step within the page (« Aller à la question ») is none to another conversation.
  if (id !== conversationId) open(id, { push: false });
});

conversations.load().then(() => { if (conversationId) showTitle(conversations.title(conversationId)); });
open(config.conversation, { push: false });
if (config.conversationMissing) {
  history.replaceState({}, "", config.urls.page);
  notify(MISSING);
}
sayOffline();
