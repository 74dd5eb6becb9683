// The thread on screen: one `Exchange` for a question and its answer, and a `Thread` that holds them and scrolls.
// Streamed text is drawn once a frame by `StreamedMarkdown`; only HTML that the server sanitised is ever inserted as HTML.

import { copyAnswers } from "./copying.js";
import { announce, byId, config, copyOutcome, dressCodeOf, el, gettext, icon, optionsOf, plainText, sourcePlace, sourceTitle, tied } from "./dom.js";
import { FeedbackButtons } from "./feedback.js";
import { Help } from "./help.js";
import { StreamedMarkdown } from "./markdown.js";
import { offerCards, openPassage } from "./passage.js";
import { Question } from "./question.js";

const NEAR_BOTTOM = 60;
// Characters of a passage under its name: more than a line shows.
const EXCERPT = 160;
/** How an answer was given, by its source: the icon, and the words. A model's is said to be the organisation's. */
const PROVENANCE = {
  memory_guard: ["seal", gettext("Réponse validée en mémoire")],
  direct_qa: ["seal", gettext("Réponse validée du document")],
  clarification: ["question", gettext("Précision demandée")],
  extractive: ["quote", gettext("Passages cités")],
  llm: ["spark", gettext("Rédigée par {model}", { model: config.author })],
  guard_rail: ["fence", gettext("Pas trouvé")],
  round_limit: ["alert", gettext("Arrêtée à la limite des outils")],
};
const UNFINISHED = new Set(["failed", "interrupted"]);
const VALIDATED = new Set(["memory_guard", "direct_qa"]);
/** Where a sentence is whole: what follows has begun. */
const SENTENCE_END = /[.!?…][»"”)\]]*\s/gu;
const SHORT_DATE = new Intl.DateTimeFormat(config.language, { day: "numeric", month: "short", year: "numeric" });
/** Of a stored conversation: the last answers, more than a tall screen holds; the others follow in slices. */
const DRAWN_AT_ONCE = 6;
const SLICE_MS = 10;
const TOOL_ICONS = { running: "gear", done: "check", failed: "alert", awaiting: "pause", denied: "fence" };
const TOOL_TEXTS = {
  running: (name) => gettext("Outil « {name} » en cours…", { name }),
  done: (name) => gettext("Outil « {name} » terminé", { name }),
  failed: (name) => gettext("L’outil « {name} » a échoué", { name }),
  awaiting: (name) => gettext("L’outil « {name} » demande votre accord", { name }),
  approved: (name) => gettext("Outil « {name} » accepté", { name }),
  denied: (name) => gettext("Outil « {name} » refusé", { name }),
};

export class Exchange {
  /** `handlers`: isRunning(), ask(text), replace(exchange, text, {asTyped}), show(turnId, direction), retry(exchange), decide(exchange, toolCallId, isApproved, isLast), requested(request). */
  constructor(text, handlers) {
    this.question = text;
    this.handlers = handlers;
    this.turnId = null;
    this.asked = new Question(text, {
      isRunning: handlers.isRunning,
      edit: (edited) => handlers.replace(this, edited),
      show: (turnId, direction) => handlers.show(turnId, direction),
    });
    this.sources = [];
    this.text = "";
    this.pieces = 0;
    this.told = 0;
    this.prose = el("div", { class: "prose" });
    this.streamed = new StreamedMarkdown(this.prose);
    this.tools = new Map();
    this.toolList = el("ul", { class: "tools", hidden: true, "aria-live": "polite", "aria-label": gettext("Outils") });
    this.sourceList = el("div", { class: "sources", hidden: true });
    this.foot = el("footer", { class: "answer-foot" });
    this.body = el("div", { class: "answer", hidden: true }, el("h3", { class: "hidden" }, gettext("Réponse")), this.toolList, this.prose, this.sourceList, this.foot);
    this.help = new Help(handlers);
    this.element = el("article", { class: "exchange" }, this.asked.element, this.body, this.help.element);
  }

  /** Asked, nothing received yet; also the state after a reader re-attaches from the start. */
  begin(turnId = null) {
    this.turnId = turnId ?? this.turnId;
    this.text = "";
    this.pieces = 0;
    this.told = 0;
    this.sources = [];
    this.isOver = false;
    this.sourceList.hidden = true;
    this.tools.clear();
    this.toolList.replaceChildren();
    this.toolList.hidden = true;
    this.foot.replaceChildren();
    this.prose.classList.remove("streaming");
    this.prose.replaceChildren(el("p", { class: "waiting" }, el("i", {}, el("b")), el("span", {}, gettext("Recherche dans les documents…"))));
    this.body.hidden = false;
    this.element.setAttribute("aria-busy", "true");
  }

  setSources(sources) {
    this.sources = sources;
    if (this.text) this.draw();
  }

  /** What was shown was none of the answer (`restart`). */
  forgetText() {
    this.text = "";
    this.told = 0;
    this.prose.replaceChildren();
  }

  addText(text) {
    this.text += text;
    this.pieces += 1;
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = null; if (!this.isOver) this.draw(); });
  }

  /** One line a tool, from its start to its end; `tool` is {toolCallId, name, status, relanceIndex, durationMs, arguments}. */
  setTool(tool) {
    const key = `${tool.relanceIndex} ${tool.toolCallId}`;
    const line = this.tools.get(key) ?? el("li");
    line.className = `tool ${tool.status}`;
    line.replaceChildren(icon(TOOL_ICONS[tool.status] ?? "gear"), el("span", {}, toolText(tool)));
    if (tool.status === "awaiting") line.append(this.approval(tool, line));
    if (!this.tools.has(key)) { this.tools.set(key, line); this.toolList.append(line); }
    this.toolList.hidden = false;
  }

  /** What the tool would be given, and the two answers. */
  approval(tool, line) {
    const decide = (isApproved) => {
      line.classList.remove("awaiting");
      line.replaceChildren(icon(isApproved ? "check" : "fence"), el("span", {}, toolText({ ...tool, status: isApproved ? "approved" : "denied" })));
      const next = this.toolList.querySelector(".awaiting button");
      next?.focus();
      const isLast = !next;
      this.handlers.decide(this, tool.toolCallId, isApproved, isLast);
    };
    return el("div", { class: "approval", role: "group", "aria-label": toolText(tool) },
      el("code", {}, tool.arguments),
      action("check", gettext("Accepter"), () => decide(true)),
      action("close", gettext("Refuser"), () => decide(false)));
  }

  /** The turn waits for the reader: the requests for approval stand, and what was written so far. */
  pause() {
    this.end();
    if (this.text.trim()) this.draw(); else this.prose.replaceChildren();
    this.prose.classList.remove("streaming");
    this.toolList.querySelector("button")?.focus();
  }

  /** What of the answer on the screen was not told to a screen reader yet: its whole sentences, and at the end all of it. */
  toTell({ isWhole = false } = {}) {
    const text = this.prose.textContent;
    const ends = [...text.matchAll(SENTENCE_END)].map((end) => end.index + end[0].length);
    const end = isWhole ? text.length : ends.at(-1) ?? 0;
    const rest = text.slice(this.told, end).trim();
    const said = this.told || !rest ? rest : gettext("Réponse : {text}", { text: rest });
    this.told = Math.max(this.told, end);
    return said;
  }

  draw() {
    this.prose.classList.add("streaming");
    this.streamed.update(this.text, { turn: this.turnId, numbers: new Set(this.sources.map((source) => source.n)) });
    const sentences = this.isOver ? "" : this.toTell();
    if (sentences) announce(sentences);
  }

  /** An unfinished turn goes on; else the same question again, as another version or where none reached the server. */
  again(isUnfinished) {
    if (isUnfinished && this.turnId) this.handlers.retry(this);
    else this.handlers.replace(this, this.question);
  }

  /** The end: `answer` is {html, content, status, answerSource, model, score, messageId, feedback, suggestions, notice, readAs}. */
  finish(answer) {
    this.end();
    this.text = answer.content;
    this.answerSource = answer.answerSource;
    if (!answer.content.trim()) { this.showUnanswered(answer.notice || (answer.status === "interrupted" ? gettext("Réponse interrompue") : gettext("Aucun texte n’a été produit.")), answer.status); return; }
    const template = document.createElement("template");
    template.innerHTML = answer.html;
    this.prose.replaceChildren(template.content);
    dressCodeOf(this.prose);
    this.labelCitations();
    const isAsking = answer.answerSource === "clarification";
    const options = optionsOf(this.sources);
    if (isAsking) this.showOptions((options.length ? options : this.sources).map((source) => source.question));
    else if (answer.suggestions?.length) this.showOptions(answer.suggestions);
    // Older answers that ask have the options for sources, and no passages.
    if (options.length || !isAsking) this.showSources();
    this.showFoot(answer);
  }

  /** A stored answer that nobody looks at yet: it stands, and is drawn by `drawStored`. */
  finishLater(answer) {
    this.end();
    this.text = answer.content;
    this.stored = answer;
    this.element.classList.add("far");
  }

  drawStored() {
    const answer = this.stored;
    this.stored = null;
    if (answer) this.finish(answer);
  }

  /** The turn failed; text that had come stays. */
  fail(message) {
    this.end();
    if (!this.text.trim()) { this.showUnanswered(message, "failed"); return; }
    this.draw();
    this.prose.classList.remove("streaming");
    this.labelCitations();
    this.showSources();
    this.showFoot({ status: "failed", notice: message });
  }

  end() {
    this.isOver = true;
    cancelAnimationFrame(this.frame);
    this.frame = null;
    this.body.hidden = false;
    this.prose.classList.remove("streaming");
    this.element.removeAttribute("aria-busy");
  }

  showUnanswered(message, status = "") {
    const retry = action("redo", status === "interrupted" ? gettext("Reprendre la question") : gettext("Réessayer"), () => this.again(UNFINISHED.has(status)));
    this.body.hidden = false;
    this.prose.replaceChildren(el("div", { class: "unanswered" }, el("p", {}, message), retry));
    this.foot.replaceChildren();
    this.sourceList.hidden = true;
  }

  /** In the place of the list in the text: the questions to choose from, and what stands last in it, that none is meant. Each is asked. */
  showOptions(questions) {
    const list = this.prose.querySelector("ul");
    const none = list ? [...list.children].slice(questions.length).map((item) => item.textContent.trim()) : [];
    const choices = el("div", { class: "suggestions", role: "group", "aria-label": gettext("Questions proposées") },
      ...[...questions, ...none].map((text) => el("button", { type: "button", class: "suggestion", dir: "auto", onclick: () => this.handlers.ask(text) }, tied(text))));
    if (list) list.replaceWith(choices); else this.prose.append(choices);
  }

  labelCitations() {
    for (const link of this.prose.querySelectorAll("a.citation")) {
      const source = this.source(Number(link.dataset.n));
      if (!source) continue;
      link.setAttribute("aria-label", gettext("Source {n} : {title}", { n: source.n, title: sourceTitle(source) }));
    }
  }

  showSources() {
    const isByModel = this.answerSource === "llm";
    const cited = new Set([...this.prose.querySelectorAll("a.citation")].map((link) => Number(link.dataset.n)));
    // What a model read and does not cite is not what its answer stands on.
    const isUncited = (source) => (cited.size > 0 || isByModel) && !cited.has(source.n);
    const list = (sources) => el("ol", {}, ...sources.map((source) => el("li", {}, this.sourceButton(source))));
    const others = this.sources.filter(isUncited);
    const isOnlyRead = isByModel && !cited.size;
    const several = isOnlyRead ? gettext("Passages consultés ({n})", { n: others.length }) : gettext("{n} autres passages", { n: others.length });
    const summary = !isOnlyRead && others.length === 1 ? gettext("1 autre passage") : several;
    this.sourceList.replaceChildren(...(isOnlyRead ? [] : [el("h4", {}, gettext("Sources"))]), list(this.sources.filter((source) => !isUncited(source))),
      ...(others.length ? [el("details", { class: "uncited" }, el("summary", {}, summary), list(others))] : []));
    this.sourceList.hidden = !this.sources.length;
  }

  /** What it is called, what it is and since when, and how it begins: two passages under one heading are told apart. */
  sourceButton(source) {
    const title = sourceTitle(source);
    const place = sourcePlace(source);
    const facts = [sourceKind(source), sourceDate(source), place === title ? "" : place].filter(Boolean).join(" · ");
    return el("button", { type: "button", class: "source", id: `source-${this.turnId}-${source.n}`, "data-n": source.n, title },
      el("span", { class: "source-number" }, String(source.n)),
      el("span", { class: "source-text", dir: "auto" },
        el("span", { class: "source-title" }, title),
        el("span", { class: "source-place" }, facts),
        el("span", { class: "source-place" }, beginning(source.text))));
  }

  source(number) {
    return this.sources.find((source) => source.n === number);
  }

  showFoot({ status, answerSource, score, agent, notice, readAs, messageId, feedback }) {
    const labels = el("div", { class: "labels" }, provenance(answerSource, this.sources));
    if (config.urls.turnAdmin && VALIDATED.has(answerSource) && typeof score === "number") {
      labels.append(el("span", { class: "provenance" }, gettext("Similarité : {score}", { score: score.toLocaleString(config.language, { maximumFractionDigits: 2 }) })));
    }
    if (agent) labels.append(label("gear", agent, "agent"));
    if (status === "interrupted") labels.append(label("pause", gettext("Réponse interrompue"), "trouble"));
    const trouble = notice || (status === "failed" ? gettext("Réponse incomplète : une erreur est survenue") : "");
    if (trouble) labels.append(label("alert", trouble, "trouble"));
    const why = config.urls.turnAdmin && this.turnId
      ? el("a", { class: "action", href: config.urls.turnAdmin.replace("{id}", this.turnId) }, icon("question"), gettext("Pourquoi cette réponse ?")) : null;
    const askAgain = answerSource === "extractive" && notice ? gettext("Demander encore au modèle") : gettext("Reposer");
    const again = { failed: gettext("Réessayer"), interrupted: gettext("Reprendre la question") }[status] ?? askAgain;
    const isUnfinished = UNFINISHED.has(status);
    const person = messageId ? this.help.button(messageId, this.turnId, this.question, answerSource === "guard_rail") : null;
    const thumbs = messageId ? new FeedbackButtons(messageId, feedback, this.help) : null;
    const actions = el("div", { class: "actions" },
      this.copyButton(),
      action("redo", again, () => this.again(isUnfinished), isUnfinished ? null : gettext("Reposer cette question")),
      thumbs?.up, thumbs?.down, person, why);
    this.foot.replaceChildren(...(readAs ? [this.readingLine(readAs)] : []), labels, actions, ...(thumbs ? [thumbs.form] : []));
  }

  /** The question was read otherwise than typed: how, and the way to have it looked up as it stands. */
  readingLine(text) {
    const asTyped = el("button", { type: "button", class: "action", onclick: () => this.handlers.replace(this, this.question, { asTyped: true }) }, gettext("Poser telle quelle"));
    return el("p", { class: "read-as" }, el("span", { dir: "auto", title: text }, gettext("Question lue ainsi : « {text} »", { text })), asTyped);
  }

  copyButton() {
    const button = action("copy", gettext("Copier"), async () => {
      const copied = await copyAnswers([this.copied()]);
      const outcome = copyOutcome(copied);
      button.replaceChildren(icon(copied ? "check" : "alert"), outcome);
      announce(outcome);
      setTimeout(() => button.replaceChildren(icon("copy"), gettext("Copier")), 2000);
    }, gettext("Copier la réponse et ses sources"));
    return button;
  }

  /** What of it is copied (`copying.js`). */
  copied() {
    return { prose: this.prose, text: this.text, sources: this.sources };
  }
}

function sourceKind(source) {
  if (source.learned_id) return gettext("Réponse validée");
  if (source.url) return gettext("Page du web");
  return source.page ? gettext("Document, page {page}", { page: source.page }) : gettext("Document");
}

function sourceDate(source) {
  if (!source.date) return "";
  const date = SHORT_DATE.format(new Date(`${source.date}T12:00`));
  return source.learned_id ? gettext("validée le {date}", { date }) : gettext("lu le {date}", { date });
}

/** A line of a passage, without the marks of its Markdown. */
const beginning = (text) => plainText((text ?? "").slice(0, 2 * EXCERPT)).slice(0, EXCERPT);

/** A tool's name as words. */
const readable = (name) => name.replace(/__+/g, " · ").replace(/[_-]+/g, " ");

function toolText(tool) {
  if (tool.toolCallId === "reasoning") return tool.status === "running" ? gettext("Le modèle réfléchit…") : gettext("Le modèle a réfléchi");
  const seconds = tool.durationMs === null ? "" : (tool.durationMs / 1000).toLocaleString(config.language, { maximumFractionDigits: 1 });
  const said = TOOL_TEXTS[tool.status](readable(tool.name));
  return seconds && tool.status === "done" ? `${said} (${gettext("{seconds} s", { seconds })})` : said;
}

function action(iconName, text, onclick, hint = null) {
  return el("button", { type: "button", class: "action", title: hint, onclick }, icon(iconName), text);
}

function label(iconName, text, kind = "") {
  return el("span", { class: `provenance ${kind}` }, icon(iconName), text);
}

/** How the answer was given. A stored reply without a source is one to a greeting or to thanks; one whose source is no document is staff's. */
function provenance(answerSource, sources) {
  if (!PROVENANCE[answerSource]) return null;
  const [iconName, text] = PROVENANCE[answerSource];
  if (answerSource === "direct_qa" && !sources.length) return label("smile", gettext("Formule de politesse"));
  if (answerSource === "direct_qa" && !sources[0].document_id) return label(iconName, gettext("Réponse validée par l’équipe"), "validated");
  return label(iconName, text, VALIDATED.has(answerSource) ? "validated" : "");
}

export class Thread {
  constructor(handlers) {
    this.requests = [];
    this.handlers = { ...handlers, requested: (request) => this.setRequests([...this.requests.filter((other) => other.turn !== request.turn), request]) };
    this.element = byId("thread");
    this.scroller = byId("scroller");
    this.jump = byId("jump");
    this.exchanges = [];
    this.follows = true;
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.jump.addEventListener("click", () => { byId("main").focus({ preventScroll: true }); this.follows = true; this.toBottom(); });
    this.element.addEventListener("click", (event) => this.openSource(event));
    offerCards(this.element, (link) => this.sourceAt(link)?.source);
    new ResizeObserver(() => this.grown()).observe(this.element);
    new ResizeObserver(() => this.grown()).observe(this.scroller);
  }

  clear() {
    this.exchanges = [];
    this.requests = [];
    this.element.replaceChildren();
    this.showWelcome(true);
  }

  /** Replace everything by stored messages; a turn that still runs is left open. Returns nothing. */
  load({ messages, requests }, runningTurnId) {
    this.clear();
    const near = new Set(messages.filter((message) => message.role === "user").slice(-DRAWN_AT_ONCE).map((message) => message.turn.id));
    for (const message of messages) {
      const exchange = this.ofTurn(message.turn.id) ?? this.add(message.role === "user" ? message.content : "", message.turn.id);
      if (message.role === "assistant") {
        exchange.setSources(message.sources);
        if (near.has(exchange.turnId)) exchange.finish(stored(message)); else exchange.finishLater(stored(message));
        continue;
      }
      exchange.asked.setVersions(message.versions);
      for (const tool of message.tools) exchange.setTool(tool);
      exchange.status = message.turn.status;
      exchange.notice = message.turn.notice;
    }
    for (const exchange of this.exchanges) {
      if (exchange.turnId === runningTurnId) exchange.begin();
      else if (!exchange.isOver) exchange.showUnanswered(exchange.notice || (exchange.status === "interrupted" ? gettext("Réponse interrompue") : gettext("Cette question est restée sans réponse.")), exchange.status);
    }
    this.setRequests(requests);
    this.showWelcome(!this.exchanges.length);
    this.follows = true;
    this.toBottom();
    this.drawStored(this.exchanges);
  }

  /** What a person was asked, each request at its turn; where another version is shown, at that one, or at the end. */
  setRequests(requests) {
    const isNews = (request) => request.html && this.requests.some((before) => before.turn === request.turn && !before.html);
    if (requests.some(isNews)) announce(gettext("L’équipe a répondu à votre demande."));
    this.requests = requests;
    const at = (request) => this.ofTurn(request.turn) ?? this.exchanges.find((each) => each.asked.versions?.turnIds.includes(request.turn)) ?? this.exchanges.at(-1);
    const places = requests.map(at);
    for (const exchange of this.exchanges) exchange.help.setRequests(requests.filter((_request, place) => places[place] === exchange), exchange.turnId);
  }

  /** Whether an answer of a person may come while the page is open. */
  awaitsPerson() {
    return this.requests.some((request) => request.status === "waiting" || request.status === "taken");
  }

  /** The answers that `load` left, the latest first, a little between two frames: a long conversation must not hold up its reader. */
  async drawStored(exchanges) {
    let began = performance.now();
    for (const exchange of exchanges.filter((each) => each.stored).reverse()) {
      if (performance.now() - began > SLICE_MS) {
        await new Promise((resolve) => setTimeout(resolve));
        if (this.exchanges[0] !== exchanges[0]) return;
        began = performance.now();
      }
      exchange.drawStored();
    }
  }

  add(question, turnId = null) {
    const exchange = new Exchange(question, this.handlers);
    exchange.turnId = turnId;
    this.exchanges.push(exchange);
    this.element.append(exchange.element);
    this.showWelcome(false);
    return exchange;
  }

  /** A question that is asked now; in the place of another, with what a person was asked about it. */
  addNew(question, replaced) {
    if (replaced) this.cutAt(replaced);
    const exchange = this.add(question);
    if (replaced) this.setRequests(this.requests);
    return exchange;
  }

  remove(exchange) {
    this.exchanges = this.exchanges.filter((other) => other !== exchange);
    exchange.element.remove();
    this.showWelcome(!this.exchanges.length);
  }

  /** Take an exchange and all that follows it off the screen: another version comes in their place. */
  cutAt(exchange) {
    const place = this.exchanges.indexOf(exchange);
    if (place < 0) return;
    for (const gone of this.exchanges.splice(place)) gone.element.remove();
  }

  /** Copy all that was said. Returns whether it was. */
  copyAll() {
    for (const exchange of this.exchanges) exchange.drawStored();
    return copyAnswers(this.exchanges.flatMap((exchange) => [{ ...exchange.copied(), question: exchange.question }, ...exchange.help.copied()]));
  }

  isLast(exchange) {
    return this.exchanges.at(-1) === exchange;
  }

  /** The turns on screen that the server knows, in their order. */
  turnIds() {
    return this.exchanges.map((exchange) => exchange.turnId).filter(Boolean);
  }

  ofTurn(turnId) {
    return this.exchanges.find((exchange) => exchange.turnId === turnId);
  }

  /** Edit the last question that the server has; whether there is one. */
  editLast() {
    const last = this.exchanges.at(-1);
    if (!last?.turnId) return false;
    last.asked.open();
    return true;
  }

  showWelcome(shown) {
    byId("welcome").hidden = !shown;
    this.element.hidden = shown;
  }

  openSource(event) {
    const from = event.target.closest("a.citation, button.source");
    if (!from) return;
    event.preventDefault();
    const found = this.sourceAt(from);
    if (!found) return;
    // A reader who looks at a passage is not taken to the end when the lines move.
    this.follows = false;
    openPassage(found.source, from, found.exchange.turnId, found.exchange.sources);
  }

  /** The source that a citation, or a line of the sources, leads to. */
  sourceAt(element) {
    const within = element.closest(".exchange");
    const exchange = this.exchanges.find((each) => each.element === within);
    const source = exchange?.source(Number(element.dataset.n));
    return source ? { exchange, source } : null;
  }

  // Scrolling: the end stays in view as long as the reader is there.

  distance() {
    return this.scroller.scrollHeight - this.scroller.clientHeight - this.scroller.scrollTop;
  }

  scrolled() {
    this.follows = this.distance() < NEAR_BOTTOM;
    this.refresh();
  }

  grown() {
    // A form that opens under an answer makes the thread grow too: whoever writes in it stays there.
    if (this.follows && !document.activeElement?.closest("#thread form")) this.toBottom();
    this.refresh();
  }

  toBottom() {
    if (this.element.hidden) return;
    const last = this.exchanges.at(-1);
    const bottom = this.scroller.scrollHeight;
    // An answer that came in one piece is read from its start: its question stays in view.
    const top = last && last.isOver && last.isNew && last.pieces <= 1 ? last.element.offsetTop - this.element.offsetTop : bottom;
    this.scroller.scrollTop = Math.min(bottom, top);
    this.refresh();
  }

  refresh() {
    this.jump.hidden = this.element.hidden || this.distance() < NEAR_BOTTOM * 2;
    byId("main").classList.toggle("scrolled", this.scroller.scrollTop > 4);
  }
}

const stored = (message) => ({
  html: message.html, content: message.content, status: message.turn.status, answerSource: message.turn.answerSource, model: message.turn.model, score: message.turn.score,
  agent: message.turn.agent, messageId: message.id, feedback: message.feedback, suggestions: message.suggestions,
  notice: message.turn.notice, readAs: message.turn.readAs,
});
