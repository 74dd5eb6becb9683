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

// Settings are folded by subject, and found by a word of their names or texts.
function offerSettingSearch() {
  const offer = document.getElementById("setting-search");
  const groups = [...document.querySelectorAll("fieldset.collapse")].filter((each) => each.querySelector(".form-row"));
  if (!offer || !groups.length) return;
  groups[0].before(offer.content);
  const field = document.getElementById("find-setting");
  const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  const textOf = (row) => {
    const copy = row.cloneNode(true);
    for (const each of copy.querySelectorAll("select")) each.remove();
    return plain(copy.textContent);
  };
  field.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
  field.addEventListener("input", () => {
    const words = plain(field.value.trim());
    for (const group of groups) {
      const rows = [...group.querySelectorAll(".form-row")];
      const details = group.querySelector("details");
      const isNamed = plain(details?.querySelector("summary")?.textContent ?? "").includes(words);
      for (const row of rows) row.hidden = !isNamed && !textOf(row).includes(words);
      group.hidden = rows.every((row) => row.hidden);
      // What a person opened stays open when the search is emptied.
      if (!words) details?.toggleAttribute("open", details.open && !details.dataset.found);
      else if (details && !group.hidden && !details.open) details.open = details.dataset.found = true;
      if (!words) delete details?.dataset.found;
    }
    document.getElementById("no-setting").hidden = groups.some((group) => !group.hidden);
  });
}

addEventListener("DOMContentLoaded", offerSettingSearch);
