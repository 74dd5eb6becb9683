"""The ASGI application: HTTP to Django, WebSockets to the consumers, behind origin and session checks."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django_application = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402  # needs the apps to be loaded
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from agents.database import WEB_DATABASE_WAIT_SECONDS, wait_at_most  # noqa: E402
from chat.api.asgi import OwnOriginOnly, below_base_path, later_without_storage  # noqa: E402
from chat.serve import lifespan  # noqa: E402
from chat.urls import websocket_urlpatterns  # noqa: E402

wait_at_most(WEB_DATABASE_WAIT_SECONDS)
sockets = OwnOriginOnly(later_without_storage(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))))
routes = {"http": django_application, "websocket": sockets, "lifespan": lifespan}
application = below_base_path(ProtocolTypeRouter(routes))
