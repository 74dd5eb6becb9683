// The loader, for other sites: <script src="…/widget.js" data-key="rpk_…" async></script>
// It adds one button that says what it is, and a frame when the button is first pressed. It reads nothing of the page but its
// tag, its language and its origin, and its styles and the page's do not meet. Attributes of the tag, all optional: data-label
// (the button's words), data-theme (light, dark), data-color (#rrggbb, the button's), data-side (left), data-lang (fr, en).
(() => {
  // A module, or a script that a tag manager put in, is not the current one.
  const script = document.currentScript ?? document.querySelector("script[data-key][src*='widget.js']");
  if (!script?.dataset.key || window.repondantWidget) return;
  window.repondantWidget = true;
  const { key, label, theme = "", color = "", side, lang } = script.dataset;
  const home = new URL(script.src).origin;
  const language = lang || document.documentElement.lang || navigator.language || "";
  const [askWord, closeWord] = language.toLowerCase().startsWith("fr")
    ? ["Poser une question", "Fermer l’aide"] : ["Ask a question", "Close the help"];
  const openWord = label || askWord;

  /** White or black, whichever is read better on the colour (WCAG's relative luminance). */
  function inkOn(hex) {
    const [red, green, blue] = [1, 3, 5].map((at) => {
      const part = parseInt(hex.slice(at, at + 2), 16) / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000" : "#fff";
  }
  const [paint, ink] = /^#[0-9a-f]{6}$/i.test(color) ? [color, inkOn(color)] : ["#17565c", "#fffdf8"];
  const edge = side === "left" ? "left" : "right";

  // Beside the body, which pages filter, transform and replace, under a name and with styles that no rule of theirs reaches.
  const host = document.createElement("repondant-widget");
  for (const [name, value] of Object.entries({ all: "initial", display: "block", "pointer-events": "auto" })) host.style.setProperty(name, value, "important");
  const root = host.attachShadow({ mode: "open" });
  // A sheet of its own, which no policy of the page forbids, as it would a <style>.
  const styles = new CSSStyleSheet();
  styles.replaceSync(`
    button, iframe { position: fixed; ${edge}: 20px; z-index: 2147483000; border: 0; }
    button { bottom: 20px; display: flex; align-items: center; gap: 10px; max-width: calc(100vw - 40px); min-height: 52px; padding: 0 20px 0 16px;
      border-radius: 26px; cursor: pointer; background: ${paint}; color: ${ink}; text-align: start;
      font: 600 16px/1.2 system-ui, sans-serif; box-shadow: 0 4px 16px rgb(0 0 0 / 25%); }
    button:focus-visible { outline: 3px solid ${ink}; outline-offset: -6px; box-shadow: 0 0 0 3px ${paint}; }
    svg { width: 24px; height: 24px; flex: none; fill: none; stroke: currentColor; stroke-width: 2; stroke-linecap: round; stroke-linejoin: round; }
    button.open { padding: 0; width: 52px; justify-content: center; }
    button.open span { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
    iframe { bottom: 84px; width: min(420px, calc(100vw - 40px)); height: min(660px, calc(100vh - 104px)); border-radius: 14px; color-scheme: ${theme === "dark" || theme === "light" ? theme : "light dark"};
      box-shadow: 0 8px 32px rgb(0 0 0 / 25%); }
    iframe[hidden] { display: none; }
    @media (forced-colors: active) { button { border: 2px solid; } }
    @media print { button, iframe { display: none; } }
    @media (max-width: 480px) {
      iframe { inset: 0; width: 100vw; height: 100vh; height: 100dvh; border-radius: 0; }
      /* It fills a phone: until its own button can close it, this one does. */
      button:not(.covered) { z-index: 2147483001; }
    }`);
  root.adoptedStyleSheets = [styles];

  const SVG = "http://www.w3.org/2000/svg";
  const sign = document.createElementNS(SVG, "svg");
  sign.setAttribute("viewBox", "0 0 24 24");
  sign.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "path");
  sign.append(line);
  const words = document.createElement("span");
  const button = document.createElement("button");
  button.type = "button";
  button.append(sign, words);
  root.append(button);
  let frame = null;

  function load() {
    const asked = new URLSearchParams({ origin: location.origin, lang: language, theme });
    frame = document.createElement("iframe");
    frame.id = "repondant-frame";
    frame.title = openWord;
    // The browser itself says which site asks, and no more than that.
    frame.referrerPolicy = "origin";
    frame.allow = "clipboard-write";
    frame.src = new URL(`widget/${encodeURIComponent(key)}/?${asked}`, script.src).href;
    frame.addEventListener("load", () => { if (!frame.hidden) enter(); });
    root.append(frame);
    button.setAttribute("aria-controls", frame.id);
  }

  function enter() {
    frame.focus();
    frame.contentWindow.postMessage({ repondant: "opened" }, home);
  }

  function show(open) {
    if (open && !frame) load(); else if (frame) frame.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    button.classList.toggle("open", open);
    words.textContent = open ? closeWord : openWord;
    line.setAttribute("d", open ? "M6 6l12 12M18 6L6 18" : "M4 5h16v11H12l-5 4v-4H4zM8 9h8M8 12.5h5");
    if (open) enter();
  }

  const isOpen = () => Boolean(frame && !frame.hidden);
  button.addEventListener("click", () => show(!isOpen()));
  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && isOpen() && document.activeElement === host) close();
  });
  window.addEventListener("message", (event) => {
    if (event.origin !== home || event.source !== frame?.contentWindow) return;
    if (event.data?.repondant === "ready") button.classList.add("covered");
    if (event.data?.repondant === "close") close();
  });

  function close() {
    show(false);
    button.focus();
  }

  show(false);
  const attach = () => document.documentElement.append(host);
  // Put back once, where a page replaced itself whole; whoever removes it again means it.
  const watcher = new MutationObserver(() => {
    if (host.isConnected) return;
    watcher.disconnect();
    attach();
  });
  const begin = () => { attach(); watcher.observe(document, { childList: true }); watcher.observe(document.documentElement, { childList: true }); };
  if (document.body) begin(); else addEventListener("DOMContentLoaded", begin);
})();
