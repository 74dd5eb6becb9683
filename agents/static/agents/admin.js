// The search field of a list of choices is made by a script that gives it no name: it takes its list's.
function nameSearchFields() {
  for (const field of document.querySelectorAll(".select2-search__field:not([aria-label])")) {
    const list = field.closest(".select2")?.previousElementSibling;
    const label = list?.labels?.[0] ?? list?.closest("td, .field-line")?.querySelector("label");
    field.setAttribute("aria-label", label?.textContent.trim() || document.title);
  }
}

new MutationObserver(nameSearchFields).observe(document, { childList: true, subtree: true });
