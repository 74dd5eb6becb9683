// The socket of one conversation. At most one turn is under way; it is described by `this.turn` from the moment the
// question is asked to its last event, and survives any number of lost sockets: an unacknowledged question is sent
// again under the same id (the server answers it once), an acknowledged one is resumed after the last event seen.
// Where no socket passes (a proxy without Upgrade), the same goes over HTTP, as server-sent events.

import { send } from "./api.js";
import { config, PASSING } from "./dom.js";
import { eventsOf } from "./events.js";

const CLOSE_NOT_FOUND = 4404;
const FIRST_RETRY_MS = 300;
const LONGEST_RETRY_MS = 10_000;
// A connection that died unnoticed is suspected after this silence; resuming costs nothing when it was alive.
const SILENCE_MS = 25_000;
// A question that the database or a busy site refuses is sent until it is taken; a turn that fell with it is run again so often.
const MOST_RERUNS = 8;
// So many sockets in a row that did not open, before any did, are taken for a line that passes none.
const MOST_FAILED = 2;
let failed = 0;
let hasOpened = false;

export class Connection {
  /** `handlers`: event(frame, turn), lost(), waiting(), back(), gone(). */
  constructor(conversationId, handlers) {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.id = conversationId;
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
    const connected = this.socket?.readyState === WebSocket.OPEN || this.stream;
    if ((!connected || this.turn.isWaiting) && (!this.turn.id || this.turn.isAgain)) {
      this.turn = null;
      clearTimeout(this.retry);
      return false;
    }
    this.turn.stopping = true;
    if (connected) this.sendStop();
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
    if (failed >= MOST_FAILED) { this.follow(); return; }
    if (this.socket?.readyState === WebSocket.OPEN) { this.sendTurn(); return; }
    if (this.socket?.readyState === WebSocket.CONNECTING) return;
    clearTimeout(this.retry);
    const socket = this.socket = new WebSocket(this.url);
    socket.onopen = () => { hasOpened = true; failed = 0; this.sendDecisions(); this.sendTurn(); };
    socket.onmessage = (message) => this.receive(JSON.parse(message.data));
    socket.onclose = (event) => this.lost(event.code);
  }

  drop() {
    this.stream?.abort();
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
    if (turn.stopping) this.sendStop();
    this.watch();
  }

  sendStop() {
    if (this.socket) this.send({ type: "stop" });
    else if (this.turn?.id) send("POST", `${config.urls.questions}turns/${this.turn.id}/stop`).catch(() => { /* Its end comes by itself. */ });
  }

  /** The decisions and the turn over HTTP, the turn to its end or to the end of the line. */
  async follow() {
    const turn = this.turn;
    if (this.stream) return;
    const stream = this.stream = new AbortController();
    const below = (id) => `${config.urls.questions}turns/${id}/`;
    try {
      for (const { type, turnId, toolCallId } of this.decisions.splice(0)) await send("POST", `${below(turnId)}approvals`, { toolCallId, approved: type === "approve" });
      if (turn) {
        turn.isWaiting = false;
        this.watch();
        const signal = stream.signal;
        const { message, clientMessageId, replaces, asTyped } = turn;
        const response = turn.isAgain ? await send("POST", `${below(turn.id)}retry`, undefined, { signal })
          : turn.id ? await send("GET", `${below(turn.id)}events`, undefined, { signal, "Last-Event-ID": String(turn.lastEventId) })
            : await send("POST", `${config.urls.questions}chat`, { message, clientMessageId, conversationId: this.id, ...(replaces && { replaces }), ...(asTyped && { asTyped }) }, { signal });
        for await (const frame of eventsOf(response.body)) {
          if (this.turn !== turn) break;
          this.receive(frame);
          if (frame.type === "meta" && turn.stopping) this.sendStop();
        }
      }
    } catch (error) {
      // Nobody answers: perhaps a socket does again.
      if (!error.status) failed = stream.signal.aborted ? failed : 0;
      else if (this.turn === turn && turn && (error.status < 500 || PASSING.includes(error.code))) this.receive({ type: "error", code: error.code, message: error.message });
    }
    this.stream = null;
    if (this.closed || !this.turn || this.turn.isWaiting) return;
    if (this.turn === turn) this.lost(); else this.open();
  }

  receive(frame) {
    if (frame.type === "beat") { this.watch(); return; }
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
    if (!hasOpened && code) failed += 1;
    if (code === CLOSE_NOT_FOUND) { const turn = this.turn; this.turn = null; this.handlers.gone(turn); return; }
    if (!this.turn) return;
    if (code && failed === MOST_FAILED) { this.open(); return; }
    this.retries += 1;
    if (this.retries > 1) this.handlers.lost();
    this.openLater(FIRST_RETRY_MS * 2 ** (this.retries - 1));
  }
}
