// A conversation of a closed deployment: it can be deleted, after a question.

import { deleteConversation } from "./api.js";
import { byId, config } from "./dom.js";

const dialog = byId("confirm");
const button = byId("delete");

button.hidden = false;
button.addEventListener("click", () => { dialog.returnValue = "cancel"; dialog.showModal(); });
dialog.addEventListener("close", async () => {
  if (dialog.returnValue !== "delete") return;
  button.disabled = true;
  try {
    await deleteConversation(config.conversation);
    location.assign(config.urls.home);
  } catch (error) {
    button.disabled = false;
    byId("failed").textContent = error.message;
    byId("failed").hidden = false;
  }
});
