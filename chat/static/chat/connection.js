// The socket of one conversation. At most one turn is under way; it is described by `this.turn` from the moment the
// question is asked to its last event, and survives any number of lost sockets: an unacknowledged question is sent
// again under the same id (the server answers it once), an acknowledged one is resumed after the last event seen.

import { config, PASSING } from "./dom.js";

const CLOSE_NOT_FOUND = 4404;
const FIRST_RETRY_MS = 300;
const LONGEST_RETRY_MS = 10_000;
// A connection that died unnoticed is suspected after this silence; resuming costs nothing when it was alive.
const SILENCE_MS = 25_000;
// A question that the database or a busy site refuses is sent until it is taken; a turn that fell with it is run again so often.
const MOST_RERUNS = 8;

export class Connection {
  /** `handlers`: event(frame, turn), lost(), waiting(), back(), gone(). */
  constructor(conversationId, handlers) {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.url = `${scheme}://${location.host}${config.urls.socket.replace("{id}", conversationId)}`;
    this.handlers = handlers;
    this.turn = null;
    this.decisions = [];
    this.retries = 0;
    this.closed = false;
    this.onOnline = () => { if (this.turn) this.reconnect(); };
    window.addEventListener("online", this.onOnline);
  }

  /** `asked` is {message, clientMessageId, replaces, asTyped}; `replaces`: the turn that this one is another version of, where it is. */
  ask(asked) {
    this.turn = { ...asked, id: null, lastEventId: 0 };
    this.open();
  }

  /** Follow a turn. With `isAgain`, one that failed or was interrupted is run again first. */
  resume(turnId, { isAgain = false } = {}) {
    this.turn = { message: "", id: turnId, lastEventId: 0, isAgain };
    this.open();
  }

  /** Send what the reader decided of a tool. After the last decision (`isLast`) the turn goes on, told from its start. */
  decide(turnId, toolCallId, isApproved, isLast) {
    this.decisions.push({ type: isApproved ? "approve" : "deny", turnId, toolCallId });
    if (isLast) this.turn = { message: "", id: turnId, lastEventId: 0 };
    if (this.socket?.readyState !== WebSocket.OPEN) { this.open(); return; }
    this.sendDecisions();
    if (isLast) this.watch();
  }

  /** Stop the running turn. Returns false when the question never left this page: the caller takes it back. */
  stop() {
    if (!this.turn) return true;
    const connected = this.socket?.readyState === WebSocket.OPEN;
    if ((!connected || this.turn.isWaiting) && (!this.turn.id || this.turn.isAgain)) {
      this.turn = null;
      clearTimeout(this.retry);
      return false;
    }
    this.turn.stopping = true;
    if (connected) this.send({ type: "stop" });
    return true;
  }

  close() {
    this.closed = true;
    this.turn = null;
    clearTimeout(this.retry);
    clearTimeout(this.silence);
    window.removeEventListener("online", this.onOnline);
    this.drop();
  }

  reconnect() {
    this.retries = 0;
    clearTimeout(this.retry);
    this.drop();
    this.open();
  }

  // From here on: the socket's own life.

  open() {
    if (this.closed) return;
    if (this.socket?.readyState === WebSocket.OPEN) { this.sendTurn(); return; }
    if (this.socket?.readyState === WebSocket.CONNECTING) return;
    clearTimeout(this.retry);
    const socket = this.socket = new WebSocket(this.url);
    socket.onopen = () => { this.sendDecisions(); this.sendTurn(); };
    socket.onmessage = (message) => this.receive(message.data);
    socket.onclose = (event) => this.lost(event.code);
  }

  drop() {
    if (!this.socket) return;
    this.socket.onopen = this.socket.onmessage = this.socket.onclose = null;
    this.socket.close();
    this.socket = null;
  }

  send(frame) {
    this.socket.send(JSON.stringify(frame));
  }

  sendDecisions() {
    for (const decision of this.decisions.splice(0)) this.send(decision);
  }

  sendTurn() {
    const turn = this.turn;
    if (!turn) return;
    turn.isWaiting = false;
    if (turn.isAgain) this.send({ type: "retry", turnId: turn.id });
    else if (turn.id) this.send({ type: "resume", turnId: turn.id, lastEventId: turn.lastEventId });
    else this.send({ type: "ask", message: turn.message, clientMessageId: turn.clientMessageId, ...(turn.replaces && { replaces: turn.replaces }), ...(turn.asTyped && { asTyped: true }) });
    if (turn.stopping) this.send({ type: "stop" });
    this.watch();
  }

  receive(text) {
    const frame = JSON.parse(text);
    if (this.retries) { this.retries = 0; this.handlers.back(); }
    const turn = this.turn;
    if (!turn) return;
    if (PASSING.includes(frame.code) && this.waits(turn, frame)) return;
    if (turn.refusals) { turn.refusals = 0; this.handlers.back(); }
    if (frame.type === "meta") { turn.id = frame.turnId; turn.isAgain = false; }
    if (frame.id) turn.lastEventId = frame.id;
    const isLast = frame.type === "done" || frame.type === "error";
    if (isLast) { this.turn = null; clearTimeout(this.silence); } else this.watch();
    this.handlers.event(frame, turn);
  }

  /** The database is in trouble, or too much is asked: the turn waits, and is sent again under its id. False where that was tried enough. */
  waits(turn, frame) {
    if (turn.stopping) return false;
    if (frame.id) {
      turn.reruns = (turn.reruns ?? 0) + 1;
      if (turn.reruns > MOST_RERUNS) return false;
      turn.isAgain = true;
    }
    turn.isWaiting = true;
    turn.refusals = (turn.refusals ?? 0) + 1;
    clearTimeout(this.silence);
    clearTimeout(this.retry);
    this.handlers.waiting();
    this.openLater(Math.max((frame.retryAfter ?? 0) * 1000, FIRST_RETRY_MS * 2 ** (turn.refusals - 1)));
    return true;
  }

  openLater(milliseconds) {
    const pause = Math.min(LONGEST_RETRY_MS, milliseconds);
    this.retry = setTimeout(() => this.open(), pause * (0.7 + 0.6 * Math.random()));
  }

  watch() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => { this.drop(); this.open(); }, SILENCE_MS);
  }

  lost(code) {
    this.socket = null;
    clearTimeout(this.silence);
    if (this.closed) return;
    if (code === CLOSE_NOT_FOUND) { const turn = this.turn; this.turn = null; this.handlers.gone(turn); return; }
    if (!this.turn) return;
    this.retries += 1;
    if (this.retries > 1) this.handlers.lost();
    this.openLater(FIRST_RETRY_MS * 2 ** (this.retries - 1));
  }
}
