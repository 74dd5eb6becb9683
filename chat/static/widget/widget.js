// The loader, for other sites: <script src="…/widget.js" data-key="rpk_…" async></script>
// It adds one button, and a frame when the button is first pressed. It reads nothing of the page but its language and
// origin, and its styles and the page's do not meet.
(() => {
  const script = document.currentScript;
  if (!script?.dataset.key || window.repondantWidget) return;
  window.repondantWidget = true;
  const home = new URL(script.src).origin;
  const language = document.documentElement.lang || navigator.language || "";
  const [openWord, closeWord] = language.toLowerCase().startsWith("fr")
    ? ["Poser une question", "Fermer l’aide"] : ["Ask a question", "Close the help"];

  const host = document.createElement("div");
  const root = host.attachShadow({ mode: "open" });
  const styles = new CSSStyleSheet();
  styles.replaceSync(`
    :host { all: initial; }
    button, iframe { position: fixed; right: 20px; z-index: 2147483000; border: 0; }
    button { bottom: 20px; width: 56px; height: 56px; border-radius: 50%; cursor: pointer; background: #17565c; color: #fffdf8;
      font: 600 26px/1 system-ui, sans-serif; box-shadow: 0 4px 16px rgb(0 0 0 / 25%); }
    button:focus-visible { outline: 3px solid #e9a23b; outline-offset: 2px; }
    iframe { bottom: 88px; width: min(400px, calc(100vw - 40px)); height: min(620px, calc(100vh - 108px)); border-radius: 14px;
      box-shadow: 0 8px 32px rgb(0 0 0 / 25%); }
    iframe[hidden] { display: none; }
    @media (max-width: 480px) {
      iframe { right: 0; bottom: 0; width: 100vw; height: 100vh; height: 100dvh; border-radius: 0; }
      /* It fills a phone: until its own button can close it, this one does. */
      button:not(.covered) { z-index: 2147483001; }
    }`);
  root.adoptedStyleSheets = [styles];

  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "?";
  root.append(button);
  let frame = null;

  function load() {
    const words = new URLSearchParams({ origin: location.origin, lang: language });
    frame = document.createElement("iframe");
    frame.id = "repondant-frame";
    frame.title = openWord;
    // The browser itself says which site asks, and no more than that.
    frame.referrerPolicy = "origin";
    frame.src = `${home}/widget/${encodeURIComponent(script.dataset.key)}/?${words}`;
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
    button.setAttribute("aria-label", open ? closeWord : openWord);
    button.title = open ? closeWord : openWord;
    button.textContent = open ? "×" : "?";
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
  const attach = () => document.body.append(host);
  if (document.body) attach(); else addEventListener("DOMContentLoaded", attach);
})();
