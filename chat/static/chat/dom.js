// Building elements, and the words and addresses the server gave to this page.
// Text always becomes a text node here; nothing in this file parses HTML.

export const config = JSON.parse(document.getElementById("page-config").textContent);

// The server's own (`chat.rendering`): a test compares what the two make of the same text.
const UNITS = "[kMGT]?(?:Hz|Wh?|Pa|V|A|B|o|€)|[kcdmµn]?m[²³]?|ha|[km]?g|t|[cdm]?[lL]|h|min|m?s|°[CF]?|dB|bar|Md€|[$£]|EUR|USD|CHF";
const TIED = new RegExp(`(?<=[0-9]) (?=[0-9]{3}(?![0-9])|(?:${UNITS})(?![\\p{L}\\p{N}_'’-]))|(?<=«) | (?=[»?!:;%‰€])|(?:(?<=[nN]°)|(?<=art\\.)|(?<=§)) (?=[0-9])`, "gu");

/** The text with no-break spaces in figures, before units, and in French punctuation. */
export const tied = (text) => text.replace(TIED, "\u00a0");

/** A text in the language of the page, its {…} filled in. It is written in French, where it is used; `make messages` finds it by this name. */
export function gettext(text, values = {}) {
  return tied((config.texts[text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole));
}

/** The document of a source and its headings, but for its question; nothing for an answer of the team, which stands in no document. */
export function sourcePlace(source) {
  const path = source.learned_id ? [] : (source.title || "").split(" > ");
  if (source.question && path.at(-1) === source.question) path.pop();
  return path.join(" › ");
}

/** What a source is called: the question that it answers, else where it stands. */
export const sourceTitle = (source) => source.question || sourcePlace(source) || gettext("Document sans titre");

/** The sources whose questions an answer offers to choose from, in their order. */
export const optionsOf = (sources) => sources.filter((source) => source.option).sort((one, other) => one.option - other.option);

/** What Markdown says, without its signs, on one line. */
export const plainText = (text) => text
  .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
  // Lines of signs alone: rules, and the one below a table's head.
  .replace(/^[\s|:*_=-]+$/gm, "")
  .replace(/^\s*([#>]+|[-*+]|\d+[.)])\s+/gm, "")
  .replace(/<\/?(?:br|sub|sup|mark)\s*\/?>/gi, " ")
  // An underscore within a word is one of its letters.
  .replace(/(?<![\p{L}\p{N}_])_{1,3}(?=\S)|(?<=\S)_{1,3}(?![\p{L}\p{N}_])/gu, "")
  .replace(/[*`~]+|\|/g, (sign) => (sign === "|" ? " " : "")).replace(/\s+/g, " ").trim();

export const byId = (id) => document.getElementById(id);

/** What a button of the page's markup does. Until this is called it is disabled there: a click before would be lost. */
export function onClick(button, listener) {
  button.addEventListener("click", listener);
  button.disabled = false;
}

/** An element with attributes and children; `on…` attributes are listeners, absent children are left out. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

let told = [];

/** Tell a screen reader, once; what comes at the same moment is told together. */
export function announce(text) {
  const announcer = byId("announcer");
  if (!announcer) return;
  told.push(text);
  if (told.length > 1) return;
  announcer.textContent = "";
  setTimeout(() => { announcer.textContent = told.join(" "); told = []; }, 60);
}

/** A random id, also where the page is not served from a secure context. */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What this tab keeps until it is closed; nothing where storage is closed to the page. An empty text is forgotten. */
export function recall(key) {
  try { return sessionStorage.getItem(key) ?? ""; } catch { return ""; }
}

export function remember(key, text) {
  try {
    if (text) sessionStorage.setItem(key, text); else sessionStorage.removeItem(key);
  } catch { /* Closed or full: it lasts until the page is left. */ }
}

/** Let a field be as high as its text. */
export function fit(field) {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}

/** Whether a key pressed in a field of several lines sends it. 229: an input method has the key, which Safari says no other way. */
export const isSending = (event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229;

/** The server's code for a database in trouble: what was asked is sent again, under the same id. */
export const STORAGE_UNAVAILABLE = "storage_unavailable";
/** What passes by itself: a question that is refused with it is kept, and sent again. */
export const PASSING = [STORAGE_UNAVAILABLE, "overloaded"];

/** Wait so many milliseconds, more or less: many pages are not to come back at the same moment. */
export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds * (0.7 + 0.6 * Math.random())));

/** Put text on the clipboard; falls back to a selection where the clipboard is closed to the page. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { class: "hidden", readonly: true });
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

export const copyOutcome = (isCopied) => (isCopied ? gettext("Copié") : gettext("La copie a échoué"));

// A longer question is folded: its answer stays on the screen.
const LONG_CHARACTERS = 600;
const LONG_LINES = 8;

/** What unfolds a long question, to stand behind it; nothing for one that is not. */
export const unfoldOf = (text) => ([...text].length > LONG_CHARACTERS || text.split("\n").length > LONG_LINES
  ? el("details", { class: "unfold" }, el("summary", {}, gettext("Toute la question"))) : null);

/** Dress the code below an element (`code.js`); what does so is loaded with the first. */
export async function dressCodeOf(root) {
  if (!root.querySelector("pre > code")) return;
  const { dressCode } = await import("./code.js");
  dressCode(root);
}

/** Whether a text has something to be seen, be it a sign: what `valid_question` of the server takes. */
export function isSomething(text) {
  return /(?![\u115f\u1160\u3164\uffa0\u2800])[\p{L}\p{N}\p{P}\p{S}]/u.test(text);
}
