// The list of conversations: search as one types, rename in place, delete after a question. Rows come from the API;
// what happens on this page (a new title, a new conversation) is applied at once.

import { deleteConversation, listConversations, renameConversation } from "./api.js";
import { byId, config, el, icon, say } from "./dom.js";

const SEARCH_PAUSE_MS = 250;
const DAY_MS = 86_400_000;

export class Conversations {
  /** `handlers`: open(id), deleted(id), renamed(id, title), failed(error). */
  constructor(handlers) {
    this.handlers = handlers;
    this.element = byId("conversations");
    this.search = byId("search");
    this.rows = [];
    this.found = null;
    this.current = null;
    this.request = 0;
    this.search.addEventListener("input", () => this.searched());
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.search.value) { this.search.value = ""; this.searched(); }
    });
  }

  async load() {
    try {
      this.rows = await listConversations("");
      this.draw();
    } catch (error) {
      this.handlers.failed(error);
    }
  }

  title(id) {
    return this.rows.find((row) => row.id === id)?.title ?? "";
  }

  setCurrent(id) {
    this.current = id;
    this.draw();
  }

  /** A conversation got its title, or a message: it moves to the top. */
  touch(id, title) {
    const known = this.rows.find((row) => row.id === id);
    const row = { ...known, id, title: title || known?.title || "", updated_at: new Date().toISOString() };
    this.rows = [row, ...this.rows.filter((other) => other.id !== id)];
    this.draw();
  }

  searched() {
    const text = this.search.value.trim();
    const request = this.request += 1;
    clearTimeout(this.timer);
    this.found = text ? this.rows.filter((row) => folded(row.title).includes(folded(text))) : null;
    this.draw();
    if (text) this.timer = setTimeout(() => this.searchServer(text, request), SEARCH_PAUSE_MS);
  }

  /** The server also searches the messages; its answer to an older search is dropped. */
  async searchServer(text, request) {
    try {
      const found = await listConversations(text);
      if (request !== this.request) return;
      const ids = new Set(found.map((row) => row.id));
      this.found = [...found, ...this.found.filter((row) => !ids.has(row.id))];
      this.draw();
    } catch (error) {
      this.handlers.failed(error);
    }
  }

  draw() {
    if (this.element.querySelector("input")) return;
    const rows = this.found ?? this.rows;
    if (!rows.length) {
      this.element.replaceChildren(el("p", { class: "none" }, say(this.found ? "noneFound" : "none")));
      return;
    }
    const groups = new Map();
    for (const row of rows) {
      const name = period(row.updated_at);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(this.row(row));
    }
    this.element.replaceChildren(...[...groups].flatMap(([name, items]) => [el("h2", {}, say(name)), el("ul", {}, ...items)]));
  }

  row(row) {
    const isCurrent = row.id === this.current;
    const link = el("a", { href: `${config.urls.page}c/${row.id}/`, title: row.title, "aria-current": isCurrent ? "page" : null }, row.title);
    link.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
      event.preventDefault();
      this.handlers.open(row.id);
    });
    const item = el("li", { class: `conversation${isCurrent ? " current" : ""}`, "data-id": row.id }, link,
      iconButton("pencil", say("rename", { title: row.title }), () => this.rename(row, item)),
      iconButton("trash", say("delete", { title: row.title }), () => this.remove(row)));
    return item;
  }

  rename(row, item) {
    const input = el("input", { maxlength: 200, "aria-label": say("titleLabel") });
    input.value = row.title;
    let isOver = false;
    const end = (title) => {
      if (isOver) return;
      isOver = true;
      input.remove();
      this.draw();
      this.focusRow(row.id);
      if (title && title !== row.title) this.saveTitle(row, title);
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing) end(input.value.trim());
      if (event.key === "Escape") { event.stopPropagation(); end(""); }
    });
    input.addEventListener("blur", () => end(input.value.trim()));
    item.replaceChildren(input);
    input.focus();
    input.select();
  }

  async saveTitle(row, title) {
    const old = row.title;
    this.setTitle(row.id, title);
    try {
      await renameConversation(row.id, title);
    } catch (error) {
      this.setTitle(row.id, old);
      this.handlers.failed(error);
    }
  }

  setTitle(id, title) {
    const renamed = (row) => (row.id === id ? { ...row, title } : row);
    this.rows = this.rows.map(renamed);
    this.found = this.found?.map(renamed) ?? null;
    this.draw();
    this.focusRow(id);
    this.handlers.renamed(id, title);
  }

  focusRow(id) {
    this.element.querySelector(`[data-id="${id}"] a`)?.focus();
  }

  async remove(row) {
    if (!await confirmed(say("deleteQuestion", { title: row.title }))) return;
    try {
      await deleteConversation(row.id);
    } catch (error) {
      if (error.status !== 404) { this.handlers.failed(error); return; }
    }
    this.rows = this.rows.filter((other) => other.id !== row.id);
    this.found = this.found?.filter((other) => other.id !== row.id) ?? null;
    this.draw();
    this.handlers.deleted(row.id);
  }
}

function iconButton(name, label, onclick) {
  return el("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick }, icon(name));
}

/** Ask in the dialog; resolves to whether the person agreed. */
function confirmed(text) {
  const dialog = byId("confirm");
  byId("confirm-text").textContent = text;
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "delete"), { once: true });
  });
}

/** Without case or accents, so that « resume » finds « Résumé ». */
const folded = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

function period(date) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const time = new Date(date).getTime();
  if (time >= midnight) return "today";
  if (time >= midnight - DAY_MS) return "yesterday";
  return time >= midnight - 6 * DAY_MS ? "thisWeek" : "older";
}
