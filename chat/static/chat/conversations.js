// The list of conversations: search as one types, pin, rename in place, delete one or several after a question. Rows come from the API;
// what happens on this page (a new title, a new conversation) is applied at once.

import { deleteConversation, listConversations, pinConversation, renameConversation } from "./api.js";
import { byId, config, el, gettext, icon, onClick } from "./dom.js";

const SEARCH_PAUSE_MS = 250;
const DAY_MS = 86_400_000;

export class Conversations {
  /** `handlers`: open(id), deleted(ids), renamed(id, title), failed(error). */
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
      if (event.key === "Enter" && this.search.value) this.element.querySelector("a")?.click();
    });
    this.search.parentElement.addEventListener("keydown", (event) => this.stepped(event));
    this.element.addEventListener("keydown", (event) => this.stepped(event));
    /** The ids that are chosen to be deleted, while any are being chosen. */
    this.chosen = null;
    this.selectButton = byId("select");
    this.selection = byId("selection");
    onClick(this.selectButton, () => this.choose(this.chosen ? null : new Set()));
    byId("select-all").addEventListener("change", (event) => this.choose(new Set(event.target.checked ? this.shown().map((row) => row.id) : [])));
    byId("delete-selected").addEventListener("click", () => this.removeChosen());
  }

  /** The list as the server has it; where it does not answer, the list that is there stands, and nobody is alarmed. */
  async load() {
    const rows = await listConversations("").catch(() => null);
    if (!rows) return;
    this.rows = rows;
    this.draw();
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

  /** What is listed: what was found, or all. */
  shown() {
    return this.found ?? this.rows;
  }

  focusSearch() {
    this.search.focus();
    this.search.select();
  }

  /** Up and down go from the field through the list and back. */
  stepped(event) {
    if (!["ArrowDown", "ArrowUp"].includes(event.key) || !event.target.matches("#search, a, [type=checkbox]")) return;
    const stops = [this.search, ...this.element.querySelectorAll("a, [type=checkbox]")];
    const next = stops[stops.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1)];
    if (!next) return;
    event.preventDefault();
    next.focus();
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

  /** Who stands on a row with the keyboard stays there. */
  draw() {
    if (this.element.querySelector("input:not([type])")) return;
    const held = this.element.contains(document.activeElement) ? document.activeElement : null;
    const row = held?.closest("[data-id]");
    const place = row ? [...row.children].indexOf(held) : -1;
    this.drawRows();
    const again = row && this.element.querySelector(`[data-id="${row.dataset.id}"]`);
    (again?.children[place] ?? again?.querySelector("input"))?.focus({ preventScroll: true });
  }

  drawRows() {
    const rows = this.shown();
    this.selectButton.hidden = !this.rows.length;
    if (!rows.length) {
      this.element.replaceChildren(el("p", { class: "none" }, this.found ? gettext("Aucune conversation ne correspond.") : gettext("Vos conversations apparaîtront ici.")));
      return;
    }
    const groups = new Map();
    for (const row of [...rows.filter((each) => each.pinned), ...rows.filter((each) => !each.pinned)]) {
      const name = row.pinned ? gettext("Épinglées") : period(row.updated_at);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(this.row(row));
    }
    this.element.replaceChildren(...[...groups].flatMap(([name, items]) => [el("h2", {}, name), el("ul", {}, ...items)]));
  }

  row(row) {
    const isCurrent = row.id === this.current;
    if (this.chosen) return this.choice(row);
    const link = el("a", { dir: "auto", href: `${config.urls.page}c/${row.id}/`, title: `${row.title} (${dated(row, { dateStyle: "long", timeStyle: "short" })})`, "aria-current": isCurrent ? "page" : null },
      el("span", { class: "conversation-title" }, row.title), this.found ? el("time", { class: "found-date", datetime: row.updated_at }, dated(row, { day: "numeric", month: "short", year: "numeric" })) : null);
    link.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
      event.preventDefault();
      this.handlers.open(row.id);
    });
    const pin = iconButton("pin", row.pinned ? gettext("Détacher « {title} »", row) : gettext("Épingler « {title} »", row), () => this.pin(row));
    if (row.pinned) pin.classList.add("pinned");
    const item = el("li", { class: `conversation${isCurrent ? " current" : ""}`, "data-id": row.id }, link, pin,
      iconButton("pencil", gettext("Renommer « {title} »", row), () => this.rename(row, item)),
      iconButton("trash", gettext("Supprimer « {title} »", row), () => this.remove(row)));
    return item;
  }

  choice(row) {
    const box = el("input", { type: "checkbox" });
    box.checked = this.chosen.has(row.id);
    box.addEventListener("change", () => {
      if (box.checked) this.chosen.add(row.id); else this.chosen.delete(row.id);
      this.showChoice();
    });
    return el("li", { class: "conversation", "data-id": row.id }, el("label", {}, box, el("span", { class: "conversation-title", dir: "auto" }, row.title)));
  }

  /** With a set of ids rows are chosen; without one they are opened. */
  choose(chosen) {
    this.chosen = chosen;
    this.draw();
    this.showChoice();
  }

  showChoice() {
    const count = this.chosen?.size ?? 0;
    this.selection.hidden = !this.chosen;
    this.selectButton.setAttribute("aria-pressed", String(Boolean(this.chosen)));
    byId("select-all").checked = count > 0 && count === this.shown().length;
    byId("delete-selected").disabled = !count;
    byId("delete-selected").textContent = gettext("Supprimer ({count})", { count });
  }

  async pin(row) {
    const set = (pinned) => {
      const changed = (other) => (other.id === row.id ? { ...other, pinned } : other);
      this.rows = this.rows.map(changed);
      this.found = this.found?.map(changed) ?? null;
      this.draw();
      this.element.querySelector(`[data-id="${row.id}"] button`)?.focus();
    };
    set(!row.pinned);
    try {
      await pinConversation(row.id, !row.pinned);
    } catch (error) {
      set(row.pinned);
      this.handlers.failed(error);
    }
  }

  rename(row, item) {
    const input = el("input", { maxlength: 200, "aria-label": gettext("Titre de la conversation") });
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
    if (await confirmed(gettext("Supprimer la conversation ?"), gettext("« {title} » et ses messages seront effacés définitivement.", { title: row.title }))) await this.removed([row.id]);
    else if (document.activeElement === document.body) this.focusRow(row.id);
  }

  async removeChosen() {
    const ids = [...this.chosen];
    const isOne = ids.length === 1;
    const title = isOne ? gettext("Supprimer la conversation ?") : gettext("Supprimer {count} conversations ?", { count: ids.length });
    const question = isOne ? gettext("La conversation choisie et ses messages seront effacés définitivement.") : gettext("Ces conversations et leurs messages seront effacés définitivement.");
    if (!await confirmed(title, question)) return;
    if (await this.removed(ids)) { this.choose(null); this.search.focus(); }
  }

  /** Deletes one after the other up to a failure; what is no longer there is gone as well. Returns whether all are. */
  async removed(ids) {
    const deleted = [];
    let failure = null;
    for (const id of ids) {
      await deleteConversation(id).catch((error) => { if (error.status !== 404) failure = error; });
      if (failure) break;
      deleted.push(id);
      this.chosen?.delete(id);
    }
    const stays = (row) => !deleted.includes(row.id);
    this.rows = this.rows.filter(stays);
    this.found = this.found?.filter(stays) ?? null;
    this.draw();
    if (deleted.length) this.handlers.deleted(deleted);
    if (failure) this.handlers.failed(failure);
    return !failure;
  }
}

function iconButton(name, label, onclick) {
  return el("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick }, icon(name));
}

/** Ask in the dialog; resolves to whether the person agreed. */
function confirmed(title, text) {
  const dialog = byId("confirm");
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "delete"), { once: true });
  });
}

/** Without case or accents, so that « resume » finds « Résumé ». */
const folded = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

const dated = (row, style) => new Intl.DateTimeFormat(config.language, style).format(new Date(row.updated_at));

function period(date) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const time = new Date(date).getTime();
  if (time >= midnight) return gettext("Aujourd’hui");
  if (time >= midnight - DAY_MS) return gettext("Hier");
  if (time >= midnight - 6 * DAY_MS) return gettext("7 derniers jours");
  const month = new Intl.DateTimeFormat(config.language, { month: "long", year: "numeric" }).format(new Date(date));
  return month.charAt(0).toLocaleUpperCase(config.language) + month.slice(1);
}
