// Applies the saved theme, and whether the side bar is folded, before the first paint; a classic script in the head for that reason.
// The choice is the visitor's own: "light" or "dark"; without one, the system's preference rules.
(() => {
  try {
    const saved = localStorage.getItem("repondant.theme");
    if (saved === "light" || saved === "dark") document.documentElement.dataset.theme = saved;
    if (localStorage.getItem("repondant.sidebar")) document.documentElement.dataset.sidebar = "closed";
  } catch {
    // Storage is closed to this page; the system's preference stands.
  }
})();
