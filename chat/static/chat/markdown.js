// Markdown of an answer that is still being written, as DOM nodes. Never parses HTML: text becomes text nodes, and a
// link is made only for http, https and mailto. The server's own rendering replaces this one when the answer is done.
// `StreamedMarkdown` rebuilds only the blocks that changed since the last frame.

import { el } from "./dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const TABLE_RULE = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const MAX_DEPTH = 8;

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
  if (fence) return readFence(lines, start, fence[1]);
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

function readFence(lines, start, mark) {
  const closing = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}\\s*$`);
  let end = start + 1;
  while (end < lines.length && !closing.test(lines[end])) end += 1;
  return { type: "code", text: lines.slice(start + 1, end).join("\n"), end: Math.min(end + 1, lines.length) };
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
  return { type: "table", head: rows[0], rows: rows.slice(1), end };
}

const splitRow = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());

function readParagraph(lines, start) {
  let end = start + 1;
  while (end < lines.length && lines[end].trim() && !startsBlock(lines[end])) end += 1;
  return { type: "paragraph", text: lines.slice(start, end).join("\n").trim(), end };
}

const startsBlock = (line) =>
  FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);

function renderBlock(block, context, depth = 0) {
  switch (block.type) {
    case "heading": return el(`h${block.level}`, {}, ...renderInline(block.text, context));
    case "rule": return el("hr");
    case "code": return el("pre", {}, el("code", {}, block.text));
    case "quote": return el("blockquote", {}, ...renderInner(block.text, context, depth));
    case "list": return renderList(block, context, depth);
    case "table": return renderTable(block, context);
    default: return el("p", {}, ...renderInline(block.text, context));
  }
}

function renderInner(text, context, depth) {
  if (depth >= MAX_DEPTH) return [text];
  return parseBlocks(text).map((block) => renderBlock(block, context, depth + 1));
}

function renderList(block, context, depth) {
  const items = block.items.map((item) => {
    const inner = renderInner(item, context, depth);
    // A tight item has its text directly in the <li>, as the server's rendering does.
    const tight = !/\n\s*\n/.test(item) && inner[0]?.tagName === "P";
    return el("li", {}, ...(tight ? [...inner[0].childNodes, ...inner.slice(1)] : inner));
  });
  const start = block.ordered && block.first !== 1 ? block.first : null;
  return el(block.ordered ? "ol" : "ul", { start }, ...items);
}

function renderTable(block, context) {
  const row = (cells, tag) => el("tr", {}, ...cells.map((cell) => el(tag, {}, ...renderInline(cell, context))));
  return el("table", {}, el("thead", {}, row(block.head, "th")), el("tbody", {}, ...block.rows.map((cells) => row(cells, "td"))));
}

const INLINE = [
  ["escape", /\\([!-/:-@[-`{-~])/y],
  ["code", /(`+)(?!`)([^]*?[^`])\1(?!`)/y],
  ["citation", /[ \t]?\[(\d{1,3})\](?!\()/y],
  ["link", /\[([^\][]*)\]\(\s*<?((?:https?:\/\/|mailto:)[^\s<>()]+)>?(?:\s+"[^"]*")?\s*\)/iy],
  ["strong", /(\*\*|__)(?=\S)([^]+?)(?<=\S)\1/y],
  ["emphasis", /(\*|_)(?=[^\s*_])([^]*?[^\s*_])\1(?![\w*])/y],
  ["break", / {2,}\n|\\\n/y],
];

/** Text to nodes: escapes, code, citations, links, strong, emphasis; anything else as it stands. Without `numbers` it is a document's own text, whose `[2]` cites nothing here. */
export function renderInline(text, context, depth = 0) {
  const nodes = [];
  let plain = "";
  const flush = () => { if (plain) nodes.push(document.createTextNode(plain)); plain = ""; };
  for (let at = 0; at < text.length;) {
    const found = matchInline(text, at, depth);
    if (!found) { plain += text[at]; at += 1; continue; }
    const [kind, match] = found;
    at += match[0].length;
    if (kind === "escape") { plain += match[1]; continue; }
    if (kind === "citation" && !context.numbers) { plain += match[0]; continue; }
    if (kind === "citation" && !context.numbers.has(Number(match[1]))) continue;
    flush();
    nodes.push(inlineNode(kind, match, context, depth));
  }
  flush();
  return nodes;
}

function matchInline(text, at, depth) {
  if (!"\\`[*_ \t".includes(text[at]) || depth >= MAX_DEPTH) return null;
  // An underscore inside a word is a letter.
  if (text[at] === "_" && /\w/.test(text[at - 1] ?? "")) return null;
  for (const [kind, pattern] of INLINE) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match) return [kind, match];
  }
  return null;
}

function inlineNode(kind, match, context, depth) {
  switch (kind) {
    case "code": return el("code", {}, match[2].trim() || match[2]);
    case "citation": return el("a", { class: "citation", href: `#source-${context.turn}-${match[1]}`, "data-n": match[1] }, match[1]);
    case "link": return el("a", { href: match[2], target: "_blank", rel: "noopener nofollow" }, ...renderInline(match[1], { ...context, numbers: context.numbers && new Set() }, depth + 1));
    case "strong": return el("strong", {}, ...renderInline(match[2], context, depth + 1));
    case "emphasis": return el("em", {}, ...renderInline(match[2], context, depth + 1));
    default: return el("br");
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
    const blocks = parseBlocks(closeEmphasis(text));
    let same = 0;
    while (same < blocks.length && blocks[same].source === this.sources[same]) same += 1;
    while (this.container.children.length > same) this.container.lastElementChild.remove();
    this.container.append(...blocks.slice(same).map((block) => renderBlock(block, context)));
    this.sources = blocks.map((block) => block.source);
  }
}
