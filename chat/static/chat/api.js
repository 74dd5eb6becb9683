// The JSON API. Every failure is an ApiError whose message may be shown as it is.

import { config, gettext } from "./dom.js";

/** The status of a request that reached no server; and what the window is told when one answered, whatever it said. */
export const NOBODY = 0;
export const ANSWERED = "repondant:answered";

class ApiError extends Error {
  constructor(status, message, code) { super(message); this.status = status; this.code = code; }
}

function csrfToken() {
  const prefix = `${config.csrfCookie}=`;
  const found = document.cookie.split("; ").find((pair) => pair.startsWith(prefix));
  return found ? decodeURIComponent(found.slice(prefix.length)) : config.csrfToken;
}

/** The response to a request that succeeded; throws ApiError for any other. `more`: headers, and the `signal` that ends it. */
export async function send(method, path, body, { signal, ...more } = {}) {
  const headers = { Accept: "application/json", "Accept-Language": config.language, ...more };
  // The widget's frame has no session, and so nothing to forge: its visitor's token says who asks.
  if (config.visitor) headers.Authorization = `Visitor ${config.visitor}`;
  else if (method !== "GET") headers["X-CSRFToken"] = csrfToken();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body), credentials: config.visitor ? "omit" : "same-origin" });
  } catch {
    throw new ApiError(NOBODY, gettext("Le serveur ne répond pas. Vérifiez votre connexion, puis réessayez."));
  }
  window.dispatchEvent(new Event(ANSWERED));
  if (response.ok) return response;
  const data = await response.json().catch(() => null);
  const fallback = response.status === 403 ? gettext("Votre session a expiré. Rechargez la page.") : gettext("La demande a échoué. Réessayez.");
  throw new ApiError(response.status, data?.message ?? fallback, data?.code);
}

async function request(method, path, body) {
  const response = await send(method, path, body);
  if (response.status === 204) return null;
  return response.json().catch(() => { throw new ApiError(response.status, gettext("La demande a échoué. Réessayez.")); });
}

const list = config.urls.conversations;

export const listConversations = (text) =>
  request("GET", `${list}?${new URLSearchParams({ deployment: config.deployment, q: text })}`).then((data) => data.results);
export const createConversation = () => request("POST", list, { deployment: config.deployment });
export const renameConversation = (id, title) => request("PATCH", `${list}${id}/`, { title });
export const pinConversation = (id, pinned) => request("PATCH", `${list}${id}/`, { pinned });
export const deleteConversation = (id) => request("DELETE", `${list}${id}/`);
export const loadThread = (id) => request("GET", `${list}${id}/messages/`);
export const showVersion = (id, turnId) => request("POST", `${list}${id}/branch/`, { turnId });

const feedback = (messageId) => `${config.urls.messages}${messageId}/feedback`;

/** `given` is {verdict, reason, comment}. */
export const giveFeedback = (messageId, given) => request("POST", feedback(messageId), given);
export const withdrawFeedback = (messageId) => request("DELETE", feedback(messageId));
/** Ask a person about an answer; `body` is {address, consent}. */
export const askPerson = (messageId, body) => request("POST", `${config.urls.messages}${messageId}/help`, body);

export const exportAddress = (id, format) => `${list}${id}/export?${new URLSearchParams({ format })}`;
