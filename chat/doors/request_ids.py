"""Every request and socket gets an id (`agents.logs`): a proxy's where its shape is safe, else a new one.

It is sent back in `X-Request-ID`, stands in each line of the log, and goes along to workers and model servers.
"""

from typing import Any

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope

from agents.logs import HEADER, accepted_id, working_for

_NAME = HEADER.lower().encode()


def with_request_id(application: ASGI3Application) -> ASGI3Application:
    async def wrapped(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        headers: Any = scope.get("headers", ())
        given = next((value for name, value in headers if name == _NAME), b"")
        request_id = accepted_id(given.decode("latin-1"))

        async def named(message: Any) -> None:
            if message["type"] == "http.response.start":
                sent = [*message.get("headers", ()), (_NAME, request_id.encode())]
                message = {**message, "headers": sent}
            await send(message)

        with working_for(request_id):
            await application(scope, receive, named if scope["type"] == "http" else send)

    return wrapped
