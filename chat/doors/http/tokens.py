"""Service tokens at the doors of REST framework, and how its schema describes who may call."""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from drf_spectacular.authentication import SessionScheme
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from chat.access.permissions import service_token_of
from chat.exceptions import ServiceTokenError
from chat.models import ServiceToken


class ServiceTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer <service token>`; a session or an end user's token is no one here."""

    def authenticate(self, request: Request) -> tuple[AnonymousUser, ServiceToken]:
        try:
            return AnonymousUser(), service_token_of(request.headers.get("Authorization", ""))
        except ServiceTokenError as error:
            raise AuthenticationFailed(str(error.public_message), code=error.code) from error

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="batch"'


class IsService(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        return isinstance(request.auth, ServiceToken)


class ServiceTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # its metaclass has no types
    target_class = ServiceTokenAuthentication
    name = "serviceToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


class CarriedSessionScheme(SessionScheme):  # type: ignore[no-untyped-call]  # its metaclass has no types
    target_class = "chat.doors.http.framework.CarriedSession"
