// What the reader says of an answer: two thumbs, and after a thumb down the reason and a few words.
// The thumb counts at once; the form only adds to it. A second press takes it back.

import { giveFeedback, withdrawFeedback } from "./api.js";
import { announce, config, el, gettext, icon, newId } from "./dom.js";

export class FeedbackButtons {
  /** `given` is {verdict, reason, comment} or nothing; `help` opens the form that asks a person (`help.js`). */
  constructor(messageId, given, help) {
    this.messageId = messageId;
    this.help = help;
    this.given = given ?? null;
    this.up = this.thumb("up", gettext("Réponse utile"));
    this.down = this.thumb("down", gettext("Réponse à revoir"));
    this.form = el("div", { class: "feedback", hidden: true });
    this.draw();
  }

  thumb(verdict, label) {
    return el("button", { type: "button", class: "action thumb", title: label, "aria-label": label, onclick: () => this.press(verdict) }, icon(`thumb-${verdict}`));
  }

  draw() {
    this.up.setAttribute("aria-pressed", String(this.given?.verdict === "up"));
    this.down.setAttribute("aria-pressed", String(this.given?.verdict === "down"));
  }

  async press(verdict) {
    const before = this.given;
    const isTakenBack = before?.verdict === verdict;
    this.given = isTakenBack ? null : { verdict, reason: "", comment: "" };
    this.draw();
    this.showForm(this.given?.verdict === "down");
    try {
      if (isTakenBack) await withdrawFeedback(this.messageId);
      else await giveFeedback(this.messageId, this.given);
      announce(isTakenBack ? gettext("Avis retiré.") : gettext("Merci de votre avis."));
    } catch (error) {
      this.given = before;
      this.draw();
      this.fail(error);
    }
  }

  showForm(isShown) {
    this.form.hidden = !isShown;
    if (!isShown) return;
    const name = newId();
    const reasons = config.feedbackReasons.map(([value, label]) =>
      el("label", { class: "chip" }, el("input", { type: "radio", name, value, checked: this.given.reason === value }), el("span", {}, label)));
    const comment = el("textarea", { rows: 2, dir: "auto", maxlength: config.maxComment, placeholder: gettext("Précisez, si vous le souhaitez"), "aria-label": gettext("Précisez, si vous le souhaitez") });
    comment.value = this.given.comment;
    const send = async (event) => {
      event.preventDefault();
      const reason = this.form.querySelector("input:checked")?.value ?? "";
      try {
        this.given = await giveFeedback(this.messageId, { verdict: "down", reason, comment: comment.value.trim() });
        this.form.replaceChildren(el("p", { role: "status" }, gettext("Merci de votre avis.")), ...this.askPerson());
        this.down.focus();
      } catch (error) { this.fail(error); }
    };
    this.form.replaceChildren(el("form", { onsubmit: send },
      el("fieldset", {}, el("legend", {}, gettext("Qu’est-ce qui ne va pas ?")), ...reasons),
      comment,
      el("menu", {}, ...this.askPerson(),
        el("button", { type: "button", class: "button", onclick: () => { this.form.hidden = true; this.down.focus(); } }, gettext("Fermer")),
        el("button", { type: "submit", class: "button button-primary" }, gettext("Envoyer")))));
    this.form.scrollIntoView({ block: "nearest" });
    this.form.querySelector("input").focus({ preventScroll: true });
  }

  /** A person can put right what the answer does not. */
  askPerson() {
    if (!this.help.isOffered()) return [];
    const open = () => { this.form.hidden = true; this.help.open(this.down); };
    return [el("button", { type: "button", class: "button help-ask", onclick: open }, icon("smile"), gettext("Demander à quelqu’un"))];
  }

  fail(error) {
    if (this.form.contains(document.activeElement)) this.down.focus();
    this.form.hidden = false;
    this.form.replaceChildren(el("p", { role: "alert", class: "trouble" }, `${gettext("Votre avis n’a pas pu être enregistré.")} ${error.message}`));
  }
}
