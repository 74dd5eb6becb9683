// What surrounds the conversation: theme, side bar as a drawer on a narrow screen, language. Works without a deployment.

import { byId, onClick } from "./dom.js";

const sidebar = byId("sidebar");
const scrim = byId("scrim");
const openButton = byId("open-sidebar");
const foldButton = byId("fold-sidebar");
const WIDE = window.matchMedia("(min-width: 800px)");
const main = byId("main");

function openSidebar() {
  sidebar.classList.add("open");
  scrim.hidden = false;
  main.inert = true;
  openButton.setAttribute("aria-expanded", "true");
  byId("close-sidebar").focus();
}

export function closeSidebar() {
  if (!sidebar.classList.contains("open")) return;
  sidebar.classList.remove("open");
  scrim.hidden = true;
  main.inert = false;
  openButton.setAttribute("aria-expanded", "false");
  openButton.focus();
}

/** On a wide screen the side bar is folded away, and stays so on the next page. */
function foldSidebar(isFolded) {
  if (isFolded) document.documentElement.dataset.sidebar = "closed"; else delete document.documentElement.dataset.sidebar;
  try { localStorage.setItem("repondant.sidebar", isFolded ? "closed" : ""); } catch { /* It lasts until the page is left. */ }
  openButton.setAttribute("aria-expanded", String(!isFolded && WIDE.matches));
}

/** The side bar on screen, whatever the screen. */
export function showSidebar() {
  if (WIDE.matches) foldSidebar(false);
  else if (!sidebar.classList.contains("open")) openSidebar();
}

onClick(openButton, () => { showSidebar(); if (WIDE.matches) foldButton.focus(); });
onClick(foldButton, () => { foldSidebar(true); openButton.focus(); });
byId("close-sidebar").addEventListener("click", closeSidebar);
scrim.addEventListener("click", closeSidebar);
// Before a field of the drawer hears of it: what is written there is left first, or cleared.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog:modal")) return;
  if (!event.target.closest("input:not([type=checkbox])")?.value) closeSidebar();
}, { capture: true });
WIDE.addEventListener("change", closeSidebar);

const themeButton = byId("theme");
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (systemDark.matches ? "dark" : "light")) === "dark";
const showTheme = () => themeButton.setAttribute("aria-pressed", String(isDark()));

onClick(themeButton, () => {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("repondant.theme", theme); } catch { /* It lasts until the page is left. */ }
  showTheme();
});
systemDark.addEventListener("change", showTheme);
showTheme();

// The page changes its address without loading: come back to where the visitor is now.
document.querySelector(".language").addEventListener("submit", (event) => {
  event.target.elements.next.value = location.pathname;
});
