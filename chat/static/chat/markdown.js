// Markdown of an answer that is still being written, as DOM nodes. Never parses HTML: text becomes text nodes, and a
// link is made only for http, https and mailto; an image is a link. The server's own rendering (`chat.rendering`), which a test
// compares with this one, replaces it when the answer is done.
// `StreamedMarkdown` rebuilds only the blocks that changed since the last frame.

import { el, tied } from "./dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const TABLE_RULE = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const TASK = /^\[([ xX])\][ \t]+/;
const MAX_DEPTH = 8;
// An answer's first heading stands below « Réponse », the third of its page.
const ANSWER_HEADING = 4;
const LOWEST_HEADING = 6;

/** Splits text into top-level blocks: {type, source, …}. */
export function parseBlocks(text) {
  const lines = text.split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) { at += 1; continue; }
    const block = readBlock(lines, at);
    block.source = lines.slice(at, block.end).join("\n");
    blocks.push(block);
    at = block.end;
  }
  return blocks;
}

function readBlock(lines, start) {
  const line = lines[start];
  const fence = FENCE.exec(line);
  if (fence && !(fence[1][0] === "`" && fence[2].includes("`"))) return readFence(lines, start, fence);
  const heading = HEADING.exec(line);
  if (heading) return { type: "heading", level: heading[1].length, text: heading[2], end: start + 1 };
  if (RULE.test(line)) return { type: "rule", end: start + 1 };
  if (QUOTE.test(line)) return readQuote(lines, start);
  if (ITEM.test(line)) return readList(lines, start);
  if (line.includes("|") && TABLE_RULE.test(lines[start + 1] ?? "") && lines[start + 1].includes("-")) {
    return readTable(lines, start);
  }
  return readParagraph(lines, start);
}

function readFence(lines, start, [, mark, info]) {
  const closing = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}\\s*$`);
  let end = start + 1;
  while (end < lines.length && !closing.test(lines[end])) end += 1;
  const text = lines.slice(start + 1, end).map((line) => `${line}\n`).join("");
  return { type: "code", language: info.trim().split(/\s/)[0], text, end: Math.min(end + 1, lines.length) };
}

function readQuote(lines, start) {
  const inner = [];
  let end = start;
  for (; end < lines.length; end += 1) {
    const quoted = QUOTE.exec(lines[end]);
    if (quoted) inner.push(quoted[1]);
    else if (lines[end].trim() && !startsBlock(lines[end])) inner.push(lines[end]);
    else break;
  }
  return { type: "quote", text: inner.join("\n"), end };
}

function readList(lines, start) {
  const first = ITEM.exec(lines[start]);
  const ordered = /\d/.test(first[2]);
  const items = [];
  let indent = 0;
  let end = start;
  for (; end < lines.length; end += 1) {
    const line = lines[end];
    const item = ITEM.exec(line);
    const depth = line.length - line.trimStart().length;
    if (item && depth < Math.max(indent, 2) && /\d/.test(item[2]) === ordered && !RULE.test(line)) {
      indent = item[1].length + item[2].length + 1;
      items.push([item[4]]);
    } else if (!line.trim()) {
      const next = lines[end + 1] ?? "";
      if (!next.trim() || (next.length - next.trimStart().length < indent && !ITEM.test(next))) break;
      items.at(-1).push("");
    } else if (depth >= Math.min(indent, 2)) {
      items.at(-1).push(line.slice(Math.min(depth, indent)));
    } else if (!startsBlock(line) && lines[end - 1].trim()) {
      items.at(-1).push(line);
    } else break;
  }
  return { type: "list", ordered, first: ordered ? parseInt(first[2], 10) : 1, items: items.map((item) => item.join("\n")), end };
}

function readTable(lines, start) {
  let end = start + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const rows = [lines[start], ...lines.slice(start + 2, end)].map(splitRow);
  const aligned = splitRow(lines[start + 1]).map((rule) => ALIGNED[`${rule.startsWith(":") ? ":" : ""}-${rule.endsWith(":") ? ":" : ""}`]);
  return { type: "table", head: rows[0], rows: rows.slice(1), aligned, end };
}

const ALIGNED = { ":-": "left", ":-:": "center", "-:": "right" };
const splitRow = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());

function readParagraph(lines, start) {
  let end = start + 1;
  while (end < lines.length && lines[end].trim() && !startsBlock(lines[end])) end += 1;
  return { type: "paragraph", text: lines.slice(start, end).join("\n").trim(), end };
}

const startsBlock = (line) =>
  FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);

/** Headings without a gap below the page's own: of each block that is one, the level that it has there. Those within a quote or a list are none. */
function setLevels(blocks, first = ANSWER_HEADING) {
  const levels = [];
  for (const block of blocks.filter((each) => each.type === "heading")) {
    while (levels.at(-1) >= block.level) levels.pop();
    levels.push(block.level);
    block.shownLevel = Math.min(first + levels.length - 1, LOWEST_HEADING);
  }
  return blocks;
}

/** The direction of a block is that of its text; within one it is the same. */
function renderBlock(block, context, depth = 0) {
  const dir = depth ? null : "auto";
  switch (block.type) {
    case "heading": return block.shownLevel ? el(`h${block.shownLevel}`, { dir }, ...renderInline(block.text, context)) : el("p", {}, el("strong", {}, ...renderInline(block.text, context)));
    case "rule": return el("hr");
    case "code": return el("pre", { tabindex: "0", dir: "ltr" }, el("code", { class: block.language && `language-${block.language}` || null }, block.text));
    case "quote": return el("blockquote", { dir }, ...renderInner(block.text, context, depth));
    case "list": return renderList(block, context, depth);
    case "table": return renderTable(block, context, dir);
    default: return el("p", { dir }, ...renderInline(block.text, context));
  }
}

function renderInner(text, context, depth) {
  if (depth >= MAX_DEPTH) return [text];
  return parseBlocks(text).map((block) => renderBlock(block, context, depth + 1));
}

function renderList(block, context, depth) {
  const items = block.items.map((item) => {
    const box = TASK.exec(item);
    const inner = renderInner(box ? `${box[1] === " " ? "☐" : "☑"} ${item.slice(box[0].length)}` : item, context, depth);
    // A tight item has its text directly in the <li>, as the server's rendering does.
    const tight = !/\n\s*\n/.test(item) && inner[0]?.tagName === "P";
    return el("li", { class: box && "task" }, ...(tight ? [...inner[0].childNodes, ...inner.slice(1)] : inner));
  });
  const start = block.ordered && block.first !== 1 ? block.first : null;
  return el(block.ordered ? "ol" : "ul", { start, dir: depth ? null : "auto" }, ...items);
}

/** In a box of its own, which scrolls: a table that does so itself is none to a screen reader. */
function renderTable(block, context, dir) {
  const row = (cells, tag) => el("tr", {}, ...block.head.map((_, at) => el(tag, { align: block.aligned[at] }, ...renderInline(cells[at] ?? "", context))));
  const body = block.rows.length ? el("tbody", {}, ...block.rows.map((cells) => row(cells, "td"))) : null;
  return el("div", { class: "table", tabindex: "0", dir }, el("table", {}, el("thead", {}, row(block.head, "th")), body));
}

const ADDRESS = "(?:https?:\\/\\/|www\\.)[^\\s<>[\\]\"«»`\\\\|]{1,2000}";
const MAIL = "[a-z0-9][\\w.+-]*@[a-z0-9-]+(?:\\.[a-z0-9-]+)*\\.[a-z]{2,}(?![\\w@-])";
const BARE = new RegExp(`(?<![\\w/.@-])${ADDRESS}|(?<![\\w.+@/:-])${MAIL}`, "gi");
const SAFE = "(?:https?:\\/\\/|mailto:)[^\\s<>]";
const TARGET = `\\(\\s*<?(${SAFE}(?:[^\\s<>()]|\\([^\\s<>()]*\\))*)>?(?:\\s+"([^"]*)")?\\s*\\)`;

const INLINE = [
  ["escape", /\\([!-/:-@[-`{-~])/y],
  ["code", /(`+)(?!`)([^]*?[^`])\1(?!`)/y],
  ["image", new RegExp(`!\\[([^\\][]*)\\]${TARGET}`, "iy")],
  // Behind a variable of one letter, or before an assignment, it is an index: `a[1]`, `ligne[2] = 5`.
  ["citation", /[ \t]?(?<!(?<![\p{L}\p{N}_])[a-z])\[(\d{1,3})\](?!\(|[ \t]*=)/uy],
  ["link", new RegExp(`\\[((?:!\\[[^\\][]*\\]\\([^()]*\\)|[^\\][])*)\\]${TARGET}`, "iy")],
  ["address", new RegExp(`<(${SAFE}[^\\s<>]*)>`, "iy")],
  ["both", /\*{3}(?=\S)([^]+?)(?<=\S)\*{3}/y],
  ["strong", /(\*\*|__)(?=\S)([^]+?)(?<=\S)\1/y],
  ["emphasis", /(\*|_)(?=[^\s*_])([^]*?[^\s*_])\1(?![\w*])/y],
  ["struck", /~~(?=\S)([^]+?)(?<=\S)~~/y],
  ["break", / {2,}\n|\\\n|<br[ \t]*\/?>/iy],
  ["small", /<(sub|sup|mark)>([^]*?)<\/\1>/iy],
];

/** Text to nodes: escapes, code, citations, links, images, emphasis; anything else as it stands. Without `numbers` it is a document's own text, whose `[2]` cites nothing here. */
export function renderInline(text, context, depth = 0) {
  const nodes = [];
  let plain = "";
  const flush = () => { if (plain) nodes.push(...plainNodes(plain, context)); plain = ""; };
  for (let at = 0; at < text.length;) {
    const found = matchInline(text, at, depth);
    if (!found) { plain += text[at]; at += 1; continue; }
    const [kind, match] = found;
    at += match[0].length;
    if (kind === "escape") { plain += match[1]; continue; }
    if (kind === "citation" && (!context.numbers || context.isLink)) { plain += match[0]; continue; }
    if (kind === "citation" && !context.numbers.has(Number(match[1]))) continue;
    flush();
    nodes.push(inlineNode(kind, match, context, depth));
  }
  flush();
  return nodes;
}

/** Text without marks: its bare addresses are links, and no line is broken within a figure. */
function plainNodes(text, context) {
  const plain = (piece) => (piece ? [document.createTextNode(tied(piece))] : []);
  if (context.isLink) return plain(text);
  const nodes = [];
  let at = 0;
  for (const { 0: found, index } of text.matchAll(BARE)) {
    const shown = withoutEnd(found);
    const isMail = !/^(?:https?:|www\.)/i.test(shown);
    nodes.push(...plain(text.slice(at, index)), link({ href: isMail ? `mailto:${shown}` : /^www\./i.test(shown) ? `http://${shown}` : shown }, shown));
    at = index + shown.length;
  }
  return [...nodes, ...plain(text.slice(at))];
}

/** Without the punctuation of the sentence, and without the bracket that was opened before the address. */
function withoutEnd(address) {
  for (;;) {
    let kept = address.replace(/[.,;:!?'’*_~…]+$/, "");
    if (kept.endsWith(")") && kept.split(")").length > kept.split("(").length) kept = kept.slice(0, -1);
    if (kept === address) return address;
    address = kept;
  }
}

const link = (attributes, ...children) => el("a", { ...attributes, target: "_blank", rel: "noopener nofollow" }, ...children);

function matchInline(text, at, depth) {
  if (!"\\`[*_ \t!<~".includes(text[at]) || depth >= MAX_DEPTH) return null;
  // An underscore inside a word is a letter.
  if (text[at] === "_" && /[\p{L}\p{N}_]/u.test(text[at - 1] ?? "")) return null;
  for (const [kind, pattern] of INLINE) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match) return [kind, match];
  }
  return null;
}

function inlineNode(kind, match, context, depth) {
  const inner = (text, own = context) => renderInline(text, own, depth + 1);
  switch (kind) {
    case "code": return el("code", {}, match[2].trim() || match[2]);
    case "citation": return el("a", { class: "citation", href: `#source-${context.turn}-${match[1]}`, "data-n": match[1] }, match[1]);
    case "link": return link({ href: match[2], title: match[3] }, ...inner(match[1], { ...context, isLink: true }));
    case "image": return context.isLink ? document.createTextNode(match[1]) : link({ href: match[2], title: match[3], class: "image" }, match[1].trim() || match[2]);
    case "address": return link({ href: match[1] }, match[1]);
    case "both": return el("em", {}, el("strong", {}, ...inner(match[1])));
    case "strong": return el("strong", {}, ...inner(match[2]));
    case "emphasis": return el("em", {}, ...inner(match[2]));
    case "small": return el(match[1].toLowerCase(), {}, ...inner(match[2]));
    case "struck": return el("s", {}, ...inner(match[1]));
    default: {
      const end = document.createDocumentFragment();
      end.append(el("br"), "\n");
      return end;
    }
  }
}

/** Close a `**` still open in the last paragraph, so that bold text does not flicker while it is written. */
function closeEmphasis(text) {
  const last = text.slice(text.lastIndexOf("\n\n") + 1);
  if (last.includes("`") || (last.match(/\*\*/g) ?? []).length % 2 === 0) return text;
  return /\*\*\s*$/.test(text) ? text.replace(/\*\*\s*$/, "") : `${text.replace(/[*\s]+$/, "")}**`;
}

/** An answer in the making: give it the whole text so far, at most once a frame. */
export class StreamedMarkdown {
  constructor(container) {
    this.container = container;
    this.sources = [];
  }

  update(text, context) {
    const key = `${context.turn}:${[...(context.numbers ?? [])].join()}`;
    if (key !== this.key) { this.container.replaceChildren(); this.sources = []; this.key = key; }
    const blocks = setLevels(parseBlocks(closeEmphasis(text)), context.heading);
    let same = 0;
    while (same < blocks.length && blocks[same].source === this.sources[same]) same += 1;
    while (this.container.children.length > same) this.container.lastElementChild.remove();
    this.container.append(...blocks.slice(same).map((block) => renderBlock(block, context)));
    this.sources = blocks.map((block) => block.source);
  }
}
