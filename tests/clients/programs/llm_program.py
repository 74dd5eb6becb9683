"""`llm`, a command: its models are those of a file of its own, so it lists none of the desk's."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from asking import KNOWN, OPEN, UNKNOWN, WRITTEN, run, site

address, key, name = site()
folder = Path(tempfile.mkdtemp())
os.environ["LLM_USER_PATH"] = str(folder)
ENTRY = "- model_id: {id}\n  model_name: {name}\n  api_base: {address}\n  api_key_name: desk\n  {more}\n"
ENTRIES = [
    (name, name, "supports_tools: true"),
    (WRITTEN, WRITTEN, "can_stream: true"),
    (UNKNOWN, UNKNOWN, "can_stream: true"),
    ("by-completions", name, "completion: true"),
    ("by-responses", name, "responses: true"),
]
(folder / "extra-openai-models.yaml").write_text(
    "".join(ENTRY.format(id=each, name=asked, address=address, more=more) for each, asked, more in ENTRIES)
)
(folder / "keys.json").write_text(f'{{"desk": "{key}"}}')
WEATHER = 'def weather(city: str) -> str:\n    "The weather of a city."\n    return "rain"\n'


def llm(*arguments: str, model: str = name) -> str:
    command = [str(Path(sys.executable).with_name("llm")), "-m", model, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def follow_up() -> str:
    llm(OPEN)
    return llm("-c", "Et le matériel ?")


run(
    plain=lambda: llm("--no-stream", KNOWN),
    stream=lambda: llm(KNOWN),
    sources=lambda: llm(KNOWN, model=WRITTEN),
    tools=lambda: llm("--functions", WEATHER, KNOWN),
    stop=lambda: llm("-o", "stop", "\n", KNOWN),
    follow_up=follow_up,
    errors=lambda: llm(KNOWN, model=UNKNOWN),
    wrong_key=lambda: llm("--key", "rsk_wrong", KNOWN),
    text=lambda: llm(KNOWN, model="by-completions"),
    responses=lambda: llm(KNOWN, model="by-responses"),
)
