// The search field of a list of choices is made by a script that gives it no name: it takes its list's.
function nameSearchFields() {
  for (const field of document.querySelectorAll(".select2-search__field:not([aria-label])")) {
    const list = field.closest(".select2")?.previousElementSibling;
    const label = list?.labels?.[0] ?? list?.closest("td, .field-line")?.querySelector("label");
    field.setAttribute("aria-label", label?.textContent.trim() || document.title);
  }
}

new MutationObserver(nameSearchFields).observe(document, { childList: true, subtree: true });

// A threshold is tried on the last questions before it is saved: the link beside it has what was typed.
function offerWhatIf() {
  const offer = document.getElementById("what-if");
  for (const field of offer ? document.querySelectorAll('input[name$="_threshold"]') : []) {
    const line = offer.content.firstElementChild.cloneNode(true);
    const link = line.querySelector("a");
    const address = link.href;
    line.hidden = true;
    field.after(line);
    field.addEventListener("input", () => {
      line.hidden = !field.value;
      link.href = `${address}&setting_${field.name}=${field.value}`;
    });
  }
}

addEventListener("DOMContentLoaded", offerWhatIf);
