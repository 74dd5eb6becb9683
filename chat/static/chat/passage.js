// The passage behind a citation: a column beside the conversation on a wide screen, a modal sheet on a narrow one.
// Focus goes to its title when it opens and back to where it came from when it closes.

import { byId, config, say, sourceTitle } from "./dom.js";
import { StreamedMarkdown } from "./markdown.js";

const WIDE = window.matchMedia("(min-width: 1100px)");
const panel = byId("passage");
const page = byId("page");
const text = new StreamedMarkdown(byId("passage-text"));
const OF_A_DOCUMENT = { turn: "passage", numbers: null };
let opener = null;

/** `turnId` is the turn whose answer cites it. */
export function openPassage(source, from, turnId) {
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
  byId("passage-title").focus({ preventScroll: true });
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
  const typeKey = `type.${source.type}`;
  byId("passage-number").textContent = source.n;
  byId("passage-title").textContent = sourceTitle(source);
  byId("passage-type").textContent = say(typeKey) === typeKey ? "" : say(typeKey);
  byId("passage-score").textContent = typeof source.score === "number" ? say("score", { score: source.score.toLocaleString(document.documentElement.lang, { minimumFractionDigits: 2, maximumFractionDigits: 2 }) }) : "";
  byId("passage-question").textContent = source.question || "";
  // The question of a pair is often the heading that it stands under: once is enough.
  byId("passage-question").hidden = !source.question || sourceTitle(source).split(" › ").at(-1) === source.question;
  // Where a page of the web is; an address of any other kind is no link.
  const address = /^https?:\/\//i.test(source.url || "") ? source.url : "";
  byId("passage-link").parentElement.hidden = !address;
  if (address) byId("passage-link").href = address;
  else byId("passage-link").removeAttribute("href");
  text.update(source.text, OF_A_DOCUMENT);
}

/** The page of a PDF that it stands on, where readers may open it. */
function linkPage(source, turnId) {
  const link = byId("passage-page");
  const pattern = config.urls.citedPage;
  const isShown = Boolean(pattern && source.page && turnId);
  link.parentElement.hidden = !isShown;
  if (!isShown) { link.removeAttribute("href"); return; }
  link.href = pattern.replace("{turn}", turnId).replace("{n}", source.n);
  link.textContent = say("citedPage", { page: source.page });
}

panel.addEventListener("close", () => {
  page.classList.remove("with-passage");
  markOpener(false);
  opener = null;
});
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
