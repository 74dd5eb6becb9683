// Code in an answer: its language, a button that copies it, and a few colours. Loaded where there is code, on pages that are only
// read too (`read.js`). Text stays text: it is cut into spans, never parsed as HTML.

import { announce, copyOutcome, copyText, el, gettext } from "./dom.js";

const COPIED_MS = 2_000;
/** Longer code stays in one colour: who opens such a thread waits for nothing. */
const MOST_COLOURED = 20_000;
const words = (text) => new Set(text.split(/\s+/));
const KEYWORDS = words(`abstract and as assert async await begin break case catch class const continue def default delete do done echo elif else end
  enum esac except export extends extern false False fi final finally fn for foreach from func function global go if impl implements import in
  interface is lambda let local loop match mod mut namespace new nil None not null of or package pass private protected pub public raise
  return select self static struct super switch then this throw trait true True try type typedef typeof undefined union unless until
  use using var void where while with yield`);
const OF_SQL = words(`add all alter and as asc between by case column constraint create default delete desc distinct drop else end exists foreign
  from full group having in index inner insert into is join key left like limit not null offset on or order outer primary references
  right select set table then union unique update values view when where with`);
const HASH = words("bash conf dockerfile ini make makefile perl ps1 powershell py python r rb ruby sh shell toml yaml yml zsh");
const MARKUP = words("html svg vue xml");
const STRING = String.raw`"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|${"`(?:\\\\.|[^`\\\\])*`"}`;
const NUMBER = String.raw`\b(?:0[xob][\da-f_]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)\b`;

/** Each `pre` below `root` with what its reader needs. */
export function dressCode(root) {
  for (const pre of root.querySelectorAll("pre:not(.code > pre)")) {
    const code = pre.querySelector("code");
    if (!code) continue;
    const text = code.textContent;
    const language = /\blanguage-(\S+)/.exec(code.className)?.[1] ?? "";
    const box = el("div", { class: "code", dir: "ltr" });
    pre.replaceWith(box);
    box.append(el("div", { class: "code-head" }, el("span", {}, language), copyButton(text)), pre);
    if (language && text.length <= MOST_COLOURED) code.replaceChildren(...coloured(text, language.toLowerCase()));
  }
}

function copyButton(text) {
  const button = el("button", { type: "button", class: "action", "aria-label": gettext("Copier le code") }, gettext("Copier"));
  button.addEventListener("click", async () => {
    const outcome = copyOutcome(await copyText(text));
    button.textContent = outcome;
    announce(outcome);
    setTimeout(() => { button.textContent = gettext("Copier"); }, COPIED_MS);
  });
  return button;
}

function patternOf(language) {
  if (MARKUP.has(language)) return [String.raw`<!--[^]*?(?:-->|$)`, String.raw`<\/?[\w:-]+|\/?>`];
  const comment = HASH.has(language) ? String.raw`#[^\n]*` : language === "sql" ? String.raw`--[^\n]*` : String.raw`\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)`;
  return [comment, String.raw`[\p{L}_$][\p{L}\p{N}_$]*`];
}

const isKeyword = (word, language) =>
  MARKUP.has(language) || (language === "sql" ? OF_SQL.has(word.toLowerCase()) : KEYWORDS.has(word));

function coloured(text, language) {
  const [comment, word] = patternOf(language);
  const parts = new RegExp(`(?<comment>${comment})|(?<string>${STRING})|(?<number>${NUMBER})|(?<word>${word})`, "giu");
  const nodes = [];
  let at = 0;
  for (const match of text.matchAll(parts)) {
    const [kind] = Object.entries(match.groups).find(([, found]) => found !== undefined);
    if (kind === "word" && !isKeyword(match[0], language)) continue;
    nodes.push(text.slice(at, match.index), el("span", { class: `code-${kind}` }, match[0]));
    at = match.index + match[0].length;
  }
  return [...nodes, text.slice(at)];
}
