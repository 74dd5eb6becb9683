"""An OpenID provider on loopback that says what a test wants of it, true or not."""

import json
import time
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from tests.servers.loopback import LoopbackServer, QuietHandler


class LyingProvider(LoopbackServer):
    """`person` is whom it signs in; `lies` replace what it would say in a token (`None`: left out) and at an address."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.url = f"http://127.0.0.1:{self.port}"
        self.key = self.published = ec.generate_private_key(ec.SECP256R1())
        self.person: dict[str, Any] = {"sub": "248289761001", "preferred_username": "marie", "groups": ["/agents"]}
        self.lies: dict[str, Any] = {}
        self.nonce = ""
        self.grants: list[dict[str, str]] = []
        self.pause = 0.0

    def token(self) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": "desk", "iat": now, "exp": now + 60, "nonce": self.nonce, **self.person}
        claims = {name: it for name, it in (claims | self.lies).items() if it is not None and name[0] != "/"}
        return jwt.encode(claims, self.key, "ES256", {"kid": "1"})

    def answer(self, path: str) -> Any:
        if path in self.lies:
            return self.lies[path]
        if path == "/.well-known/openid-configuration":
            at = {"authorization": "auth", "token": "token", "userinfo": "me"}
            urls = {f"{name}_endpoint": f"{self.url}/{it}" for name, it in at.items()}
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys", "scopes_supported": ["openid"], **urls}
        if path == "/keys":
            jwk = jwt.algorithms.ECAlgorithm.to_jwk(self.published.public_key(), as_dict=True)
            return {"keys": [{"kid": "1", "alg": "ES256", "use": "sig", **jwk}]}
        if path == "/token":
            number = len(self.grants)
            return {"access_token": f"at-{number}", "refresh_token": f"rt-{number}", "id_token": self.token()}
        return self.person


class _Handler(QuietHandler):
    server: LyingProvider

    def do_GET(self) -> None:
        time.sleep(self.server.pause)
        answer = self.server.answer(self.path)
        if isinstance(answer, int):
            self.send_json(answer, b"{}")
        else:
            self.send_json(200, json.dumps(answer).encode())

    def do_POST(self) -> None:
        self.server.grants.append({name: values[0] for name, values in parse_qs(self.body().decode()).items()})
        self.do_GET()
