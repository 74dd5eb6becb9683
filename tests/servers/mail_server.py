"""A mail server of the tests, on loopback: what it was given, and what it answers to a command."""

import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from socketserver import StreamRequestHandler

from tests.servers.loopback import LoopbackServer


class MailServer(LoopbackServer):
    """`replies` are by command (`RCPT`, `DATA`); `END` is that to the text itself. With `gate` closed it takes nobody in."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.mails: list[EmailMessage] = []
        self.replies: dict[str, str] = {}
        self.gate, self.is_asked = threading.Event(), threading.Event()
        self.gate.set()


class _Handler(StreamRequestHandler):
    server: MailServer

    def say(self, command: str, usual: str = "250 ok") -> bool:
        reply = self.server.replies.get(command, usual)
        self.wfile.write(f"{reply}\r\n".encode())
        return reply[0] in "23"

    def handle(self) -> None:
        self.server.is_asked.set()
        self.server.gate.wait(60)
        self.say("", "220 tests")
        while line := self.rfile.readline():
            command = line[:4].decode().strip().upper()
            is_taken = self.say(command, "354 go on" if command == "DATA" else "250 ok")
            if command == "DATA" and is_taken:
                text = b"".join(iter(self.rfile.readline, b".\r\n"))
                if self.say("END"):
                    self.server.mails.append(message_from_bytes(text, policy=policy.default))
