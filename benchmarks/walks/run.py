"""Which product files and functions one question, and one uploaded document, passes through.

`python -m benchmarks.walks.run [--list]`. Four walks, each in a process that has done the same once before, so that
nothing is
counted that only a start needs:

    direct   a question over the socket, answered by a validated answer
    socket   a question over the socket, answered by a model
    v1       a question to `/v1/chat/completions`, answered by a model
    upload   `add_documents` with one Markdown file, parsed in this process

Counted are the files of the product in which a function ran, and those functions, in every thread. Module bodies,
lambdas and comprehensions do not count. `--root DIR` walks another checkout of the project, for a comparison.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

WALKS = ("direct", "socket", "v1", "upload")
PRODUCT = ("agents", "knowledge", "faqs", "tools_registry", "chat", "config")
STORED = "Quels sont les horaires d'ouverture de la piscine ?"
ASKED = "Quels documents faut-il pour inscrire un enfant à l'école ?"
#: Seconds for any one event.
WAIT = 60
PAGE = """# École

## Inscription d'un enfant à l'école

Pour inscrire un enfant à l'école, il faut un justificatif de domicile, le livret de famille et le carnet de vaccination.

## Cantine

Les repas de la cantine se réservent la veille avant midi, auprès de la mairie ou en ligne.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the files")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--only", choices=WALKS, action="append", help="not all four")
    parser.add_argument("--step", choices=("prepare", *WALKS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        return step(options.step, options.root)
    for name in options.only or WALKS:
        with tempfile.TemporaryDirectory() as folder:
            run_step("prepare", options.root, folder)
            found = json.loads(run_step(name, options.root, folder).splitlines()[-1])
        print(f"{name:8} {len(found):3} files {sum(found.values()):4} functions")
        if options.list:
            for file, count in found.items():
                print(f"    {count:3} {file}")
    return None


def run_step(name: str, root: Path, folder: str) -> str:
    """Run it in a process of its own; returns what it printed."""
    environment = os.environ | {"DATA_DIR": folder, "LOG_LEVEL": "ERROR"}
    command = [sys.executable, __file__, "--step", name, "--root", str(root)]
    done = subprocess.run(  # noqa: S603
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def step(name: str, root: Path) -> None:
    sys.path.insert(0, str(root))
    with model_server() as address:
        if name in ("socket", "v1"):
            os.environ |= {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "unused"}
        os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
        import django
        from django.conf import settings

        django.setup()
        settings.PARSE_ISOLATED = False
        settings.ALLOWED_HOSTS = ["localhost"]
        if name == "prepare":
            return prepare()
        from knowledge.embeddings.base import Purpose, embedder

        embedder().embed_one("bonjour", purpose=Purpose.QUERY)  # its model is read once
        steps = Steps(root)
        threading.setprofile(steps.note)
        sys.setprofile(steps.note)
        if name == "upload":
            walk_upload(steps)
        else:
            asyncio.run(walk_question(name, steps))
        sys.setprofile(None)
    print(json.dumps(by_file(steps.seen)))
    return None


class Steps:
    """The functions of the product that were entered while `is_on`."""

    def __init__(self, root: Path) -> None:
        self.is_on = False
        self.seen: set[tuple[str, str]] = set()
        self._root = f"{root.resolve()}{os.sep}"

    def note(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or not self.is_on:
            return
        code = frame.f_code
        if not code.co_filename.startswith(self._root) or code.co_name.startswith("<"):
            return
        file = code.co_filename[len(self._root) :]
        if file.split(os.sep)[0] in PRODUCT and "migrations" not in file:
            self.seen.add((file, code.co_qualname if hasattr(code, "co_qualname") else code.co_name))

    @contextmanager
    def counted(self) -> Iterator[None]:
        self.is_on = True
        yield
        self.is_on = False


def by_file(functions: set[tuple[str, str]]) -> dict[str, int]:
    files = sorted({file for file, _name in functions})
    return {file: sum(each == file for each, _name in functions) for file in files}


def prepare() -> None:
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    call_command("create_agent", "desk", stdout=sys.stderr)
    call_command("add_faq", "desk", question=STORED, answer="De 9 h à 19 h, tous les jours.", stdout=sys.stderr)
    call_command("add_documents", "desk", str(page(0)), stdout=sys.stderr)


def page(number: int) -> Path:
    """A document of its own for each number, with the same structure."""
    from django.conf import settings

    path = Path(settings.DATA_DIR) / f"page-{number}.md"
    path.write_text(PAGE.replace("École", f"École {number}"), "utf-8")
    return path


def walk_upload(steps: Steps) -> None:
    from django.core.management import call_command

    call_command("add_documents", "desk", str(page(1)), stdout=sys.stderr)
    path = str(page(2))
    with steps.counted():
        call_command("add_documents", "desk", path, stdout=sys.stderr)


async def walk_question(name: str, steps: Steps) -> None:
    """The same walk before, with other words in the same places: caches are warm, and no turn is found again."""
    from channels.db import database_sync_to_async

    from config.asgi import application

    ask = over_v1 if name == "v1" else over_socket
    handles = [await database_sync_to_async(handle)(name) for _time in range(2)]
    question = STORED if name == "direct" else ASKED
    await ask(application, handles[0], steps)(question)
    await asyncio.sleep(1.5)
    steps.seen.clear()
    await ask(application, handles[1], steps)(question)


def handle(name: str) -> Any:
    """What a question is asked with: a key, or a conversation and the cookie of its owner."""
    from importlib import import_module

    from django.conf import settings

    from agents.models import Deployment
    from chat.models import ApiKey, Conversation

    deployment = Deployment.objects.get(slug="desk")
    if name == "v1":
        key = ApiKey(name=str(uuid.uuid4()))
        secret = key.draw_secret()
        key.save()
        key.deployments.add(deployment)
        return secret
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    visitor = uuid.uuid4()
    session["visitor"] = str(visitor)
    session.save()
    conversation = Conversation.objects.create(deployment=deployment, visitor=visitor)
    return conversation.pk, session.session_key


def over_socket(application: Any, handle: Any, steps: Steps) -> Any:
    from asgiref.testing import ApplicationCommunicator
    from django.conf import settings

    conversation_id, session_key = handle

    async def ask(question: str) -> None:
        headers = [
            (b"origin", b"http://localhost"),
            (b"host", b"localhost"),
            (b"cookie", f"{settings.SESSION_COOKIE_NAME}={session_key}".encode()),
        ]
        address = {"path": f"/ws/chat/{conversation_id}/", "query_string": b"", "headers": headers}
        scope = {"type": "websocket", "subprotocols": [], **address}
        socket = ApplicationCommunicator(application, scope)
        await socket.send_input({"type": "websocket.connect"})
        accepted = await socket.receive_output(timeout=WAIT)
        assert accepted["type"] == "websocket.accept", accepted
        frame = {"type": "ask", "message": question, "clientMessageId": str(uuid.uuid4())}
        with steps.counted():
            await socket.send_input({"type": "websocket.receive", "text": json.dumps(frame)})
            while (frame := json.loads((await socket.receive_output(WAIT))["text"]))["type"] != "done":
                assert frame["type"] != "error", frame
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})

    return ask


def over_v1(application: Any, secret: Any, steps: Steps) -> Any:
    from asgiref.testing import ApplicationCommunicator

    async def ask(question: str) -> None:
        body = {"model": "desk", "stream": True, "messages": [{"role": "user", "content": question}]}
        headers = [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"authorization", f"Bearer {secret}".encode()),
        ]
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/v1/chat/completions",
            "raw_path": b"/v1/chat/completions",
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
        }
        with steps.counted():
            http = ApplicationCommunicator(application, scope)
            await http.send_input({"type": "http.request", "body": json.dumps(body).encode()})
            answer = b""
            while b"[DONE]" not in answer:
                event = await http.receive_output(timeout=WAIT)
                assert event.get("status", 200) == 200, event
                answer += event.get("body", b"")
        await http.wait(timeout=WAIT)

    return ask


class _Model(BaseHTTPRequestHandler):
    """Answers every completion with the same two words, streamed."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
        for choices, more in (
            ([{"index": 0, "delta": {"content": "Trois "}}], {}),
            ([{"index": 0, "delta": {"content": "papiers [1]."}, "finish_reason": "stop"}], {}),
            ([], {"usage": usage}),
        ):
            chunk = {"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": choices}
            self.wfile.write(f"data: {json.dumps(chunk | more)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_arguments: object) -> None:
        """Nothing: the walk prints its own lines."""


@contextmanager
def model_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()


if __name__ == "__main__":
    main()
