// The question field. Owns its draft: what is typed is kept per conversation until it was sent and acknowledged.

import { byId, config, fit, gettext, isSending, isSomething, recall, remember } from "./dom.js";

const NEAR_LIMIT = 0.9;
const DRAFT = "repondant.draft.";

export class Composer {
  /** `handlers`: send(text), stop(), edit(). */
  constructor(handlers) {
    this.field = byId("question");
    this.sendButton = byId("send");
    this.stopButton = byId("stop");
    this.counter = byId("counter");
    this.handlers = handlers;
    this.running = false;
    this.draftKey = null;
    byId("composer").addEventListener("submit", (event) => { event.preventDefault(); this.submit(); });
    this.stopButton.addEventListener("click", () => handlers.stop());
    this.field.addEventListener("input", () => { this.saveDraft(); this.refresh(); });
    this.field.addEventListener("keydown", (event) => this.pressed(event));
    window.addEventListener("resize", () => fit(this.field));
  }

  pressed(event) {
    if (isSending(event)) { event.preventDefault(); this.submit(); }
    // Nothing to go up in: back to the question before, to be said otherwise.
    if (event.key === "ArrowUp" && !this.field.value && !event.isComposing && this.handlers.edit()) event.preventDefault();
  }

  submit() {
    const text = this.field.value.trim();
    if (this.running || !this.isSendable(text)) return;
    this.handlers.send(text);
  }

  isSendable(text) {
    return isSomething(text) && [...text].length <= config.maxCharacters;
  }

  /** Change conversation: its own draft comes back. What was typed before this script ran stays. */
  open(conversationId) {
    const typed = this.draftKey === null ? this.field.value : "";
    this.draftKey = conversationId ?? "new";
    this.field.value = typed || recall(DRAFT + this.draftKey);
    if (typed) this.saveDraft();
    this.refresh();
  }

  clear() {
    this.field.value = "";
    this.saveDraft();
    this.refresh();
  }

  /** Bring text back for another try, above what was typed since. */
  restore(text) {
    const typed = this.field.value.trim();
    this.field.value = typed && typed !== text ? `${text}\n${typed}` : text;
    this.saveDraft();
    this.refresh();
    this.focus();
  }

  setRunning(running) {
    const held = document.activeElement;
    this.running = running;
    this.sendButton.hidden = running;
    this.stopButton.hidden = !running;
    this.stopButton.disabled = false;
    if (held === this.stopButton || held === this.sendButton) this.takeFocus();
    this.refresh();
  }

  setStopping() {
    if (document.activeElement === this.stopButton) this.takeFocus();
    this.stopButton.disabled = true;
  }

  /** What had the focus is gone, or was never there: it comes to the field, but where that would open a keyboard on the screen. */
  takeFocus() {
    if (matchMedia("(pointer: coarse)").matches) byId("main").focus({ preventScroll: true });
    else this.focus();
  }

  keepFocus() {
    const held = document.activeElement;
    if (!held || held === document.body || !held.checkVisibility()) this.takeFocus();
  }

  focus() {
    this.field.focus({ preventScroll: true });
    this.field.setSelectionRange(this.field.value.length, this.field.value.length);
  }

  refresh() {
    const length = [...this.field.value.trim()].length;
    const left = config.maxCharacters - length;
    const near = length >= config.maxCharacters * NEAR_LIMIT;
    this.counter.textContent = !near ? "" : left >= 0 ? gettext("Encore {n} caractères", { n: left }) : gettext("{n} caractères de trop", { n: -left });
    this.counter.classList.toggle("over", left < 0);
    this.field.setAttribute("aria-invalid", String(left < 0));
    this.sendButton.disabled = !this.isSendable(this.field.value.trim());
    fit(this.field);
  }

  saveDraft() {
    remember(DRAFT + this.draftKey, this.field.value);
  }
}
