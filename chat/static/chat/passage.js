// The passage behind a citation: a column beside the conversation on a wide screen, a modal sheet on a narrow one.
// Focus goes to its title when it opens and back to where it came from when it closes.

import { byId, config, el, gettext, plainText, sourcePlace, sourceTitle } from "./dom.js";
import { StreamedMarkdown } from "./markdown.js";

const WIDE = window.matchMedia("(min-width: 1100px)");
const panel = byId("passage");
const page = byId("page");
const text = new StreamedMarkdown(byId("passage-text"));
const OF_A_DOCUMENT = { turn: "passage", numbers: null, heading: 3 };
const PASSAGE_TYPES = { qa_pair: gettext("Question et réponse"), source_material: gettext("Extrait de document") };
let opener = null;
let shown = null;

/** `turnId` is the turn whose answer cites it, `sources` are those of that answer; with `held`, the focus stays there. */
export function openPassage(source, from, turnId, sources = [source], held = null) {
  shown = { source, turnId, sources };
  hideCard();
  showSteps();
  markOpener(false);
  fill(source);
  linkPage(source, turnId);
  if (panel.open && panel.matches(":modal") === WIDE.matches) panel.close();
  opener = from;
  if (!panel.open) {
    if (WIDE.matches) panel.show();
    else panel.showModal();
  }
  page.classList.toggle("with-passage", WIDE.matches);
  markOpener(true);
  panel.scrollTop = 0;
  // The column takes width from the thread, whose lines move.
  from.scrollIntoView({ block: "nearest" });
  (held && !held.disabled ? held : byId("passage-title")).focus({ preventScroll: true });
}

/** The source after this one, or before; its line in the answer is where the focus goes back to. */
function step(direction, button) {
  const next = neighbour(direction);
  if (!next) return;
  const line = byId(`source-${shown.turnId}-${next.n}`);
  openPassage(next, line?.checkVisibility() ? line : opener, shown.turnId, shown.sources, button);
}

const neighbour = (direction) => shown.sources[shown.sources.indexOf(shown.source) + direction];

function showSteps() {
  byId("passage-steps").hidden = shown.sources.length < 2;
  byId("passage-previous").disabled = !neighbour(-1);
  byId("passage-next").disabled = !neighbour(1);
}

export function closePassage({ restoreFocus = true } = {}) {
  if (!panel.open) return;
  const target = opener;
  panel.close();
  if (restoreFocus && target?.isConnected) target.focus({ preventScroll: true });
}

function markOpener(isOpen) {
  opener?.classList.toggle("open", isOpen);
}

function fill(source) {
  byId("passage-number").textContent = source.n;
  byId("passage-title").textContent = sourceTitle(source);
  byId("passage-type").textContent = PASSAGE_TYPES[source.type] ?? "";
  byId("passage-score").textContent = typeof source.score === "number" ? gettext("Similarité : {score}", { score: source.score.toLocaleString(document.documentElement.lang, { minimumFractionDigits: 2, maximumFractionDigits: 2 }) }) : "";
  // What is called by its question stands somewhere.
  const place = source.question ? sourcePlace(source) : "";
  byId("passage-question").textContent = place;
  byId("passage-question").hidden = !place;
  // Where a page of the web is; an address of any other kind is no link.
  const address = /^https?:\/\//i.test(source.url || "") ? source.url : "";
  byId("passage-link").parentElement.hidden = !address;
  if (address) byId("passage-link").href = atPassage(address, source.text);
  else byId("passage-link").removeAttribute("href");
  text.update(source.text, OF_A_DOCUMENT);
}

const ENOUGH_WORDS = 4;
const FRAGMENT_WORDS = 8;

/** The address of a page with the passage marked there, by browsers that do so (text fragments); others open the page. */
export function atPassage(address, text) {
  // A paragraph of its own words: headings and tables are often written otherwise on the page.
  const lines = text.split("\n").filter((line) => line.trim() && !/^\s*([#|>]|```)/.test(line)).map((line) => plainText(line).split(" "));
  const words = lines.find((line) => line.length >= ENOUGH_WORDS);
  if (!words) return address;
  const coded = (some) => encodeURIComponent(some.join(" ")).replace(/-/g, "%2D");
  const parts = words.length > 2 * FRAGMENT_WORDS ? [words.slice(0, FRAGMENT_WORDS), words.slice(-FRAGMENT_WORDS)] : [words];
  return `${address}${address.includes("#") ? "" : "#"}:~:text=${parts.map(coded).join(",")}`;
}

// The card of a citation: what it leads to, while the pointer or the focus is on it. Escape takes it away.

const CARD_PAUSE_MS = 200;
const CARD_CHARACTERS = 180;
const card = el("div", { class: "card", role: "tooltip", id: "card", hidden: true });
let carded = null;
let cardTimer = null;
document.body.append(card);

/** `sourceOf` finds the source of a citation. */
export function offerCards(within, sourceOf) {
  const begin = (event, pause) => {
    const link = event.target.closest("a.citation");
    if (!link || (link === carded && !card.hidden)) { if (link) clearTimeout(cardTimer); return; }
    clearTimeout(cardTimer);
    cardTimer = setTimeout(() => showCard(link, sourceOf(link)), pause);
  };
  const end = (event) => { if (event.target.closest("a.citation")) { clearTimeout(cardTimer); cardTimer = setTimeout(hideCard, CARD_PAUSE_MS); } };
  within.addEventListener("pointerover", (event) => { if (event.pointerType === "mouse") begin(event, CARD_PAUSE_MS); });
  within.addEventListener("pointerout", end);
  within.addEventListener("focusin", (event) => { if (event.target.matches(":focus-visible")) begin(event, 0); });
  within.addEventListener("focusout", end);
}

function showCard(link, source) {
  if (!source || !link.isConnected || link.classList.contains("open")) return;
  hideCard();
  const said = plainText(source.text);
  card.replaceChildren(el("strong", { dir: "auto" }, sourceTitle(source)), el("p", { dir: "auto" }, said.length > CARD_CHARACTERS ? `${said.slice(0, CARD_CHARACTERS)} …` : said));
  card.hidden = false;
  const place = link.getBoundingClientRect();
  const { width, height } = card.getBoundingClientRect();
  card.style.left = `${Math.max(8, Math.min(place.left, innerWidth - width - 8))}px`;
  card.style.top = `${place.top > height + 8 ? place.top - height - 6 : place.bottom + 6}px`;
  link.setAttribute("aria-describedby", "card");
  carded = link;
}

function hideCard() {
  clearTimeout(cardTimer);
  card.hidden = true;
  carded?.removeAttribute("aria-describedby");
  carded = null;
}

card.addEventListener("pointerenter", () => clearTimeout(cardTimer));
card.addEventListener("pointerleave", hideCard);
document.addEventListener("scroll", hideCard, { capture: true, passive: true });
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || card.hidden) return;
  event.stopPropagation();
  hideCard();
}, { capture: true });

/** The page of a PDF that it stands on, where readers may open it. */
function linkPage(source, turnId) {
  const link = byId("passage-page");
  const pattern = config.urls.citedPage;
  const isShown = Boolean(pattern && turnId && source.page);
  link.parentElement.hidden = !isShown;
  if (!isShown) { link.removeAttribute("href"); return; }
  link.href = pattern.replace("{turn}", turnId).replace("{n}", source.n) + "#passage";
  link.textContent = gettext("Voir la page {page} du document", { page: source.page });
}

panel.addEventListener("close", () => {
  page.classList.remove("with-passage");
  markOpener(false);
  opener = null;
});
byId("passage-previous").addEventListener("click", (event) => step(-1, event.currentTarget));
byId("passage-next").addEventListener("click", (event) => step(1, event.currentTarget));
byId("passage-close").addEventListener("click", () => closePassage());
// A click on the backdrop of the sheet is a click on the dialog itself, outside its box.
panel.addEventListener("click", (event) => {
  if (event.target !== panel || !panel.matches(":modal")) return;
  if (event.clientY < panel.getBoundingClientRect().top) closePassage();
});
panel.addEventListener("cancel", (event) => { event.preventDefault(); closePassage(); });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && panel.open && !panel.matches(":modal") && !document.querySelector("dialog:modal")) closePassage();
});
WIDE.addEventListener("change", () => closePassage({ restoreFocus: false }));
