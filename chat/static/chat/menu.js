// The menu of a conversation: copy it, download it, and the links that show it to others.

import { createLink, exportAddress, listLinks, revokeLink } from "./api.js";
import { announce, byId, config, copyOutcome, copyText, el, gettext, icon } from "./dom.js";

const menu = byId("menu");
const dialog = byId("share");
const list = byId("share-links");
let conversationId = null;

/** Which conversation the menu is for; none hides it. A temporary one has no links. */
export function setMenu(id, { isTemporary = false } = {}) {
  conversationId = id;
  menu.hidden = !id;
  menu.open = false;
  if (!id) return;
  for (const link of menu.querySelectorAll("[data-format]")) link.href = exportAddress(id, link.dataset.format);
  byId("open-share").hidden = isTemporary;
}

function closeMenu({ focus = false } = {}) {
  if (!menu.open) return;
  menu.open = false;
  if (focus) menu.querySelector("summary").focus();
}

menu.addEventListener("keydown", (event) => { if (event.key === "Escape") { event.stopPropagation(); closeMenu({ focus: true }); } });
document.addEventListener("click", (event) => { if (!menu.contains(event.target)) closeMenu(); });
for (const link of menu.querySelectorAll("[data-format]")) link.addEventListener("click", () => closeMenu({ focus: true }));

/** `copy` copies the conversation on the screen, and returns whether it did. */
export function onCopyAll(copy) {
  byId("copy-all").addEventListener("click", async () => {
    closeMenu({ focus: true });
    announce(copyOutcome(await copy()));
  });
}

byId("open-share").addEventListener("click", async () => {
  closeMenu({ focus: true });
  list.replaceChildren();
  dialog.showModal();
  await draw();
});
byId("share-close").addEventListener("click", () => dialog.close());
byId("share-create").addEventListener("click", async () => {
  await attempt(async () => {
    const link = await createLink(conversationId);
    await draw();
    await copied(link.url);
  });
});

async function draw() {
  await attempt(async () => {
    const links = await listLinks(conversationId);
    const rows = links.map(row);
    list.replaceChildren(...(rows.length ? rows : [el("li", { class: "none" }, gettext("Aucun lien pour le moment."))]));
  });
}

function row(link) {
  const until = link.expires_at
    ? gettext("Jusqu’au {date}", { date: new Date(link.expires_at).toLocaleDateString(config.language, { dateStyle: "long" }) }) : gettext("Sans date de fin");
  return el("li", { class: "share-link" },
    el("input", { readonly: true, value: link.url, "aria-label": gettext("Copier le lien"), onfocus: (event) => event.target.select() }),
    el("span", { class: "share-until" }, until),
    el("button", { type: "button", class: "button", onclick: () => copied(link.url) }, icon("copy"), gettext("Copier le lien")),
    el("button", { type: "button", class: "button", onclick: () => revoke(link) }, icon("trash"), gettext("Révoquer")));
}

async function revoke(link) {
  await attempt(async () => {
    await revokeLink(conversationId, link.token);
    await draw();
    status(gettext("Lien révoqué."));
    byId("share-create").focus();
  });
}

async function copied(url) {
  status(copyOutcome(await copyText(url)));
}

async function attempt(step) {
  status("");
  try { await step(); } catch (error) { status(error.message); }
}

function status(text) {
  byId("share-status").textContent = text;
  if (text) announce(text);
}
