// Applies the saved theme before the first paint; a classic script in the head for that reason.
// The choice is the visitor's own: "light" or "dark"; without one, the system's preference rules.
(() => {
  try {
    const saved = localStorage.getItem("repondant.theme");
    if (saved === "light" || saved === "dark") document.documentElement.dataset.theme = saved;
  } catch {
    // Storage is closed to this page; the system's preference stands.
  }
})();
