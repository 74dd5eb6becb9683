// « Demander à quelqu’un »: the form below an answer, and what has become of what was asked.

import { askPerson } from "./api.js";
import { announce, config, el, gettext, icon, newId } from "./dom.js";

const DAY = new Intl.DateTimeFormat(config.language, { day: "numeric", month: "long", year: "numeric" });
const ICONS = { waiting: "clock", taken: "clock", answered: "seal", closed: "fence" };
/** The longest beginning of a question of another version. */
const EXCERPT = 200;

export class Help {
  /** `handlers`: requested(request). */
  constructor(handlers) {
    this.handlers = handlers;
    this.requests = [];
    this.cards = el("div", { class: "help-cards", hidden: true });
    this.form = el("div", { class: "help-form", hidden: true });
    this.element = el("div", { class: "help" }, this.cards, this.form);
  }

  /** What opens the form about the answer of this message; `question` is what was asked. */
  button(messageId, turnId, question, isRefused) {
    this.turnId = turnId;
    this.about = { messageId, question };
    this.asking = el("button", {
      type: "button", class: isRefused ? "button help-ask" : "action", title: gettext("Une personne de l’équipe lit cette conversation et vous répond ici"), onclick: () => this.open(this.asking),
    }, icon("smile"), gettext("Demander à quelqu’un"));
    this.refresh();
    return this.asking;
  }

  /** Whether somebody can be asked about this answer; a message is asked about once. */
  isOffered() {
    return Boolean(config.help && this.about?.messageId) && !this.requests.some((request) => request.turn === this.turnId);
  }

  /** The answers of a person, as they are copied (`copying.js`). */
  copied() {
    const of = (place, part) => this.cards.children[place].querySelector(part);
    return this.requests.flatMap((request, place) => (request.html ? [{ question: of(place, ".help-head").textContent, prose: of(place, ".prose"), text: request.answer, sources: [] }] : []));
  }

  refresh() {
    if (this.asking) this.asking.hidden = !this.isOffered();
  }

  setRequests(requests, turnId) {
    this.turnId = turnId;
    if (JSON.stringify(requests) === JSON.stringify(this.requests)) return;
    this.requests = requests;
    this.cards.replaceChildren(...requests.map((request) => card(request, request.turn === this.turnId)));
    this.cards.hidden = !requests.length;
    this.refresh();
  }

  open(opener) {
    if (!this.isOffered()) return;
    this.opener = opener;
    const { mail, account, hours } = config.help;
    const title = newId();
    const hint = newId();
    const address = mail && account === null ? el("input", { type: "email", class: "help-address", maxlength: 254, autocomplete: "email", "aria-describedby": hint }) : null;
    const consent = el("input", { type: "checkbox", required: true });
    const isMailed = mail && account;
    const how = isMailed ? gettext("La réponse s’affichera ici, et vous sera envoyée à {address}.", { address: account }) : gettext("La réponse s’affichera ici, dans cette conversation.");
    const submit = el("button", { type: "submit", class: "button button-primary" }, gettext("Envoyer la demande"));
    const send = async (event) => {
      event.preventDefault();
      if (submit.disabled) return;
      submit.disabled = true;
      this.form.querySelector("[role=alert]")?.remove();
      try {
        const request = await askPerson(this.about.messageId, { address: address?.value.trim() ?? "", consent: consent.checked });
        // Another conversation may be open by now: this one shows its request when it is opened again.
        if (!this.element.isConnected) return;
        this.handlers.requested(request);
        this.close();
        this.cards.lastElementChild.focus();
        announce(gettext("Demande envoyée."));
      } catch (error) {
        if (!this.element.isConnected) return;
        submit.disabled = false;
        this.form.querySelector("menu").before(el("p", { role: "alert", class: "trouble" }, error.message));
      }
    };
    const cancel = (event) => { event.stopPropagation(); this.close(); this.opener.focus(); };
    this.form.replaceChildren(el("form", { "aria-labelledby": title, onsubmit: send, onkeydown: (event) => { if (event.key === "Escape") cancel(event); } },
      el("h4", { id: title }, gettext("Demander à quelqu’un")),
      el("p", {}, gettext("Une personne de l’équipe reçoit votre question « {question} » avec cette conversation. {how}", { question: short(this.about.question), how })),
      hours ? el("p", { class: "help-hours" }, hours) : null,
      address && el("label", { class: "help-field" }, gettext("Votre adresse électronique (facultatif)"), address, el("small", { id: hint }, gettext("Pour recevoir aussi la réponse par courriel. Sans elle, revenez ici, dans ce navigateur."))),
      el("label", { class: "help-consent" }, consent, el("span", {}, mail ? gettext("J’accepte que l’équipe lise cette conversation et se serve de mon adresse pour me répondre.") : gettext("J’accepte que l’équipe lise cette conversation pour me répondre."))),
      el("menu", {},
        el("button", { type: "button", class: "button", onclick: cancel }, gettext("Annuler")),
        submit)));
    this.form.hidden = false;
    this.form.scrollIntoView({ block: "nearest" });
    (address ?? consent).focus({ preventScroll: true });
  }

  close() {
    this.form.hidden = true;
    this.form.replaceChildren();
  }
}

const short = (text) => (text.length > EXCERPT ? `${text.slice(0, EXCERPT)}…` : text);

/** A request and its answer; that of another version says what was asked. */
function card(request, isOwn) {
  const { hours, mail } = config.help ?? {};
  const isOpen = request.status === "waiting" || request.status === "taken";
  const date = DAY.format(new Date(request.answered_at ?? request.created_at));
  const head = request.status === "answered" ? gettext("Réponse de l’équipe, le {date}", { date }) : gettext("Demande à l’équipe, le {date} : {status}", { date, status: request.statusText.toLowerCase() });
  const isMailed = mail && (request.address || config.help.account);
  const element = el("section", { class: `help-card ${request.status}`, tabindex: -1, "aria-label": head },
    el("p", { class: "help-head" }, icon(ICONS[request.status]), head),
    isOwn ? null : el("p", { class: "help-about", dir: "auto" }, gettext("À propos de « {question} »", { question: short(request.question) })),
    isOpen ? el("p", {}, isMailed ? gettext("Une personne vous répondra ici, et par courriel.") : gettext("Une personne vous répondra ici : revenez lire sa réponse.")) : null,
    isOpen && hours ? el("p", { class: "help-hours" }, hours) : null,
    request.status === "closed" ? el("p", {}, gettext("L’équipe n’a pas donné suite à cette demande.")) : null);
  if (request.html) {
    const template = document.createElement("template");
    template.innerHTML = request.html;
    const prose = el("div", { class: "prose", dir: "auto" });
    prose.append(template.content);
    element.append(prose);
  }
  return element;
}
