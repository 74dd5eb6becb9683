// The question of an exchange: its text, the switch between its versions, and editing it in place.
// A version that is sent replaces this one on screen; the server keeps both.

import { announce, el, fit, gettext, icon, isSending, isSomething, unfoldOf } from "./dom.js";

export class Question {
  /** `handlers`: isRunning(), edit(text), show(turnId). */
  constructor(text, handlers) {
    this.text = text;
    this.handlers = handlers;
    this.paragraph = el("p", { class: "question-text", dir: "auto" }, text);
    this.editButton = el("button", { type: "button", class: "action", title: gettext("Modifier"), "aria-label": gettext("Modifier"), onclick: () => this.open() }, icon("pencil"));
    this.row = el("div", { class: "question-row" }, el("div", { class: "actions" }, this.editButton), this.paragraph);
    this.switcher = el("div", { class: "versions", role: "group", "aria-label": gettext("Versions de cette question"), hidden: true });
    this.element = el("div", { class: "question" }, el("h2", { class: "hidden" }, gettext("Vous")), this.row,
      unfoldOf(text), this.switcher);
  }

  /** `versions` is {position, turnIds}, position from 1; nothing where there is one version. */
  setVersions(versions) {
    this.versions = versions;
    this.switcher.hidden = !versions;
    if (!versions) return;
    const { position, turnIds } = versions;
    const values = { position, count: turnIds.length };
    this.switcher.replaceChildren(
      this.step("left", gettext("Version précédente"), turnIds[position - 2]),
      el("span", { "aria-hidden": "true" }, gettext("{position} / {count}", values)),
      el("span", { class: "hidden" }, gettext("Version {position} sur {count}", values)),
      this.step("right", gettext("Version suivante"), turnIds[position]));
  }

  step(direction, label, turnId) {
    return el("button", { type: "button", class: "action", disabled: !turnId, title: label, "aria-label": label, "data-step": direction, onclick: () => this.handlers.show(turnId, direction) }, icon(direction));
  }

  /** Back on the switch, after it was drawn anew: on the same arrow, or the other one at the end. */
  focusStep(direction) {
    const button = this.switcher.querySelector(`[data-step="${direction}"]:enabled`) ?? this.switcher.querySelector("button:enabled");
    button?.focus({ preventScroll: true });
    if (this.versions) announce(gettext("Version {position} sur {count}", { position: this.versions.position, count: this.versions.turnIds.length }));
  }

  open() {
    if (this.form) { this.form.querySelector("textarea").focus(); return; }
    const field = el("textarea", { class: "edit-field", dir: "auto", rows: 1, "aria-label": gettext("Question modifiée") });
    field.value = this.text;
    field.addEventListener("input", () => fit(field));
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { event.stopPropagation(); this.close(); }
      if (isSending(event)) { event.preventDefault(); this.submit(field.value.trim()); }
    });
    this.form = el("form", { class: "edit", onsubmit: (event) => { event.preventDefault(); this.submit(field.value.trim()); } },
      field,
      el("menu", {},
        el("button", { type: "button", class: "button", onclick: () => this.close() }, gettext("Annuler")),
        el("button", { type: "submit", class: "button button-primary" }, gettext("Renvoyer"))));
    this.row.hidden = true;
    this.row.after(this.form);
    fit(field);
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }

  submit(text) {
    if (this.handlers.isRunning() || !isSomething(text)) return;
    this.close();
    this.handlers.edit(text);
  }

  close() {
    this.form?.remove();
    this.form = null;
    this.row.hidden = false;
    this.editButton.focus();
  }
}
