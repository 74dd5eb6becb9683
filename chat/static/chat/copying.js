// An answer on the clipboard, as rich text for a document and as Markdown for all else, each with the sources that it names.

import { copyText, el, gettext, sourcePlace, sourceTitle } from "./dom.js";

/** What a screen needs and a document does not. */
const OF_THE_PAGE = ["class", "dir", "tabindex", "id", "data-n", "title", "aria-label", "target", "rel"];

/** `exchanges`: each {question, prose, text, sources}; a `question` heads its answer where there is one. Returns whether it was copied. */
export async function copyAnswers(exchanges) {
  const html = el("div", {}, ...exchanges.flatMap(asNodes)).innerHTML;
  const text = exchanges.map(asText).join("\n\n");
  try {
    await navigator.clipboard.write([new ClipboardItem({
      "text/html": new Blob([html], { type: "text/html" }), "text/plain": new Blob([text], { type: "text/plain" }),
    })]);
    return true;
  } catch {
    return copyText(text);
  }
}

function asNodes({ question, prose, sources }) {
  const answer = prose.cloneNode(true);
  for (const gone of answer.querySelectorAll(".code-head, .suggestions")) gone.remove();
  for (const citation of answer.querySelectorAll("a.citation")) citation.replaceWith(` [${citation.dataset.n}]`);
  for (const box of answer.querySelectorAll(".code, .table, span")) box.replaceWith(...box.childNodes);
  for (const each of answer.querySelectorAll("*")) OF_THE_PAGE.forEach((name) => each.removeAttribute(name));
  const named = namedSources(sources, prose);
  return [
    question ? el("h3", {}, question) : null,
    ...answer.childNodes,
    named.length ? el("p", {}, el("strong", {}, gettext("Sources"))) : null,
    ...named.map((source) => el("p", {}, `[${source.n}] ${sourceName(source)}`, address(source) && " ", address(source) && el("a", { href: address(source) }, address(source)))),
  ];
}

function asText({ question, prose, text, sources }) {
  const named = namedSources(sources, prose).map((source) => [`- [${source.n}] ${sourceName(source)}`, address(source)].filter(Boolean).join(" "));
  return [question && `### ${question}`, text, named.length && `**${gettext("Sources")}**`, named.join("\n")].filter(Boolean).join("\n\n");
}

/** Those that the answer cites; all of them where it cites none. */
function namedSources(sources, prose) {
  const cited = new Set([...prose.querySelectorAll("a.citation")].map((link) => Number(link.dataset.n)));
  return cited.size ? sources.filter((source) => cited.has(source.n)) : sources;
}

/** What it is called, where it stands and on which page. */
function sourceName(source) {
  const title = sourceTitle(source);
  const place = sourcePlace(source);
  return [title, place === title ? "" : place, source.page ? gettext("p. {page}", { page: source.page }) : ""].filter(Boolean).join(", ");
}

const address = (source) => (/^https?:\/\//i.test(source.url ?? "") ? source.url : null);
