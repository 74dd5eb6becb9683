// Building elements, and the words and addresses the server gave to this page.
// Text always becomes a text node here; nothing in this file parses HTML.

export const config = JSON.parse(document.getElementById("page-config").textContent);

/** The page's word for a key, its {…} filled in; French punctuation stays on the line of its word. */
export function say(key, values = {}) {
  const text = (config.strings[key] ?? key).replace(/« /g, "«\u00a0").replace(/ ([»?!:;])/g, "\u00a0$1");
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/** A source's title, its path of headings shown as a path. */
export const sourceTitle = (source) => (source.title || say("untitled")).replaceAll(" > ", " › ");

/** The sources whose questions an answer offers to choose from, in their order. */
export const optionsOf = (sources) => sources.filter((source) => source.option).sort((one, other) => one.option - other.option);

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

/** Tell a screen reader, once. */
export function announce(text) {
  const announcer = byId("announcer");
  announcer.textContent = "";
  setTimeout(() => { announcer.textContent = text; }, 60);
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

/** Whether a key pressed in a field of several lines sends it. */
export const isSending = (event) => event.key === "Enter" && !event.shiftKey && !event.isComposing;

/** The server's code for a database in trouble: what was asked is sent again, under the same id. */
export const STORAGE_UNAVAILABLE = "storage_unavailable";

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

/** Whether a text has something to be seen, be it a sign: what `valid_question` of the server takes. */
export function isSomething(text) {
  return /(?![\u115f\u1160\u3164\uffa0\u2800])[\p{L}\p{N}\p{P}\p{S}]/u.test(text);
}
