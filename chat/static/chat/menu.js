// The menu of a conversation: copied, downloaded, or given to a person.

import { exportAddress } from "./api.js";
import { announce, byId, copyOutcome } from "./dom.js";

const menu = byId("menu");

/** Which conversation the menu is for; none hides it. */
export function setMenu(id) {
  menu.hidden = !id;
  menu.open = false;
  if (!id) return;
  for (const link of menu.querySelectorAll("[data-format]")) link.href = exportAddress(id, link.dataset.format);
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

/** `help` returns what a person is asked by about the last answer (`help.js`), if anything. */
export function onAskPerson(help) {
  const item = byId("ask-person");
  menu.addEventListener("toggle", () => { item.hidden = !help()?.isOffered(); });
  item.addEventListener("click", () => { closeMenu(); help().open(menu.querySelector("summary")); });
}
