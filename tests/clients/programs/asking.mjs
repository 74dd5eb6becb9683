// As asking.py, for programs of npm.
export const KNOWN = process.env.ASKED ?? "Combien de temps peut-on garder le CV d’un candidat non retenu ?";
const ONLY = (process.env.ONLY ?? "").split(" ").filter(Boolean);
export const OPEN = "Comment s’organise le télétravail et que rembourse l’accord aux salariés ?";
export const UNKNOWN = "nobody";
export const TOOL = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather of a city.",
    parameters: { type: "object", properties: { city: { type: "string" } } },
  },
};

export function site() {
  const [address, key, model] = process.argv.slice(2);
  return { address, key, model };
}

export async function run(tries) {
  const found = {};
  for (const [name, attempt] of Object.entries(tries)) {
    if (ONLY.length && !ONLY.includes(name)) continue;
    try { found[name] = String(await attempt()); } catch (error) { found[name] = `ERROR ${error.name}: ${error.message}`; }
  }
  console.log(`\n${JSON.stringify(found)}`);
}
