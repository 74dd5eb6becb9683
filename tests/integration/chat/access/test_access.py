"""Who may read and ask: visitors, people who sign in, programs with a key."""

import logging
import re
import time
import uuid
from itertools import product
from typing import Any

import pytest
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, generate_totp_secret, hotp_value
from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.db import SessionStore
from django.core.cache import cache
from django.test import Client, TestCase

from agents.models import Audience, Deployment
from chat.access.permissions import (
    Reader,
    api_key_of,
    open_deployment,
    open_deployments,
    owned_conversation,
    owned_conversations,
    service_token_of,
)
from chat.errors import ApiKeyError, ConversationNotFoundError, DeploymentNotFoundError, ServiceTokenError
from chat.models import ApiKey, Conversation
from config import settings as site
from tests.admin_pages import run_action, superuser_client
from tests.factories import fresh, make_api_key, make_conversation, make_deployment, make_service_token, make_user

NOBODY = AnonymousUser()
#: As in `docs/operations.md`, with the pattern that fail2ban puts for `<HOST>`.
FAIL2BAN = r"^.* WARNING chat\.access\.sign_in sign-in failed address=(?P<host>\S+) outcome=\w+"


class AnonymousTests(TestCase):
    def test_rights_are_those_of_the_querysets_at_once(self) -> None:
        me = Reader(NOBODY, SessionStore())
        mine = make_conversation(visitor=me.visitor, user=None)
        make_conversation(visitor=uuid.uuid4(), user=None)
        make_conversation(visitor=me.visitor, user=User.objects.create(username="u"))
        for is_active, audience in product((True, False), Audience.values):
            Deployment.objects.update(is_active=is_active, audience=audience)
            for deployment in Deployment.objects.all():
                with self.subTest(is_active=is_active, audience=audience):
                    assert self.opens(deployment) == open_deployments(NOBODY).contains(deployment)
            found = {row for row in Conversation.objects.all() if self.owns(me, row)}
            assert found == set(owned_conversations(me))
            assert (mine in found) == (is_active and audience == Audience.PUBLIC)

    def opens(self, deployment: Deployment) -> bool:
        try:
            return open_deployment(NOBODY, deployment.slug).agent == deployment.agent
        except DeploymentNotFoundError:
            return False

    def owns(self, me: Reader, conversation: Conversation) -> bool:
        try:
            found = owned_conversation(me, conversation.pk)
        except ConversationNotFoundError:
            return False
        return found == conversation and found.deployment == conversation.deployment


class LoginTests(TestCase):
    def test_person_without_admin_rights_reaches_a_deployment_for_signed_in_users(self) -> None:
        deployment = make_deployment(audience=Audience.SIGNED_IN)
        user = make_user(password="un-mot-de-passe")
        address = f"/d/{deployment.slug}/"
        closed = self.client.get(address)
        assert closed.status_code == 404
        self.assertContains(closed, f"/login/?next={address}", status_code=404)
        data = {"login": user.get_username(), "password": "un-mot-de-passe", "next": address}
        self.assertRedirects(self.client.post("/login/", data), address)

    def test_second_factor_is_asked_after_the_password_each_code_is_good_once_and_ten_are_tried(self) -> None:
        user, secret = make_user(username="chef", password="un-mot-de-passe"), generate_totp_secret()
        TOTP.activate(user, secret)

        def opens(code: str, host: int = 0) -> Any:
            client = Client(REMOTE_ADDR=f"192.0.2.{host}")
            client.post("/login/", {"login": "chef", "password": "un-mot-de-passe"})
            assert "_auth_user_id" not in client.session
            client.post("/2fa/authenticate/", {"code": code})
            return client.session.get("_auth_user_backend")

        code = format_hotp_value(hotp_value(secret, int(time.time()) // 30))
        assert [opens(code), opens(code)] == [settings.AUTHENTICATION_BACKENDS[0], None]
        cache.clear()
        with self.settings(ACCOUNT_RATE_LIMITS=site.ACCOUNT_RATE_LIMITS):
            assert not any(opens(tried, host) for host, tried in enumerate(["000000"] * 10 + [code]))

    def test_account_without_access_to_the_admin_is_told(self) -> None:
        self.client.force_login(make_user())
        self.assertContains(self.client.get("/admin/", follow=True), "pas accès", status_code=403)
        self.assertRedirects(Client().get("/admin/", follow=True), "/login/?next=/admin/")

    def test_next_never_leads_to_another_site(self) -> None:
        user = make_user(password="un-mot-de-passe")
        data = {"login": user.get_username(), "password": "un-mot-de-passe", "next": "https://evil.example/"}
        self.assertRedirects(self.client.post("/login/", data), "/")

    def test_a_failed_sign_in_is_one_line_that_the_documented_filter_reads(self) -> None:
        user = make_user(username="marie", password="secret-of-marie")
        with self.assertLogs("chat.access.sign_in", "WARNING") as found:
            self.client.post("/login/", {"login": "marie", "password": "hunter2"})
        logged: Any = settings.LOGGING["formatters"]
        line = logging.Formatter(logged["line"]["format"]).format(found.records[0])
        match = re.match(FAIL2BAN, line)
        assert match is not None
        assert match["host"] == "127.0.0.1"
        assert not any(word in line for word in ("marie", "hunter2", str(user.pk) + "@"))
        with self.assertNoLogs("chat.access.sign_in", "WARNING"):
            self.client.post("/login/", {"login": "marie", "password": "secret-of-marie"})


class AdminTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment()
        self.client = superuser_client()

    def create(self) -> str:
        response = self.client.post("/admin/chat/apikey/add/", {"name": "site", "deployments": [self.deployment.pk]})
        assert response.status_code == 200
        assert "no-store" in response["Cache-Control"]
        found = re.search(r"rsk_[\w-]+", response.content.decode())
        assert found is not None
        return found[0]

    def opens(self, secret: str) -> bool:
        response = Client().get("/v1/models", headers={"Authorization": f"Bearer {secret}"})
        return response.status_code == 200

    def test_key_is_shown_once_and_opens_the_door_until_it_is_revoked(self) -> None:
        secret = self.create()
        key = ApiKey.objects.get()
        assert self.opens(secret)
        assert list(key.deployments.all()) == [self.deployment]
        for page in ("", f"{key.pk}/change/"):
            shown = self.client.get(f"/admin/chat/apikey/{page}").content.decode()
            assert key.prefix in shown
            assert secret not in shown
        renamed = {"name": "renamed", "deployments": [self.deployment.pk]}
        self.client.post(f"/admin/chat/apikey/{key.pk}/change/", renamed)
        assert (fresh(key).name, self.opens(secret)) == ("renamed", True)
        run_action(self.client, "revoke", key)
        assert not self.opens(secret)


class BearerTests(TestCase):
    def test_row_without_a_secret_opens_no_door(self) -> None:
        ApiKey.objects.create(name="made by hand", all_deployments=True)
        for header in ("", "Bearer", "Bearer  ", "Basic abc"):
            with self.assertNumQueries(0), pytest.raises(ApiKeyError):
                api_key_of(header)
            with self.assertNumQueries(0), pytest.raises(ServiceTokenError):
                service_token_of(header)

    def test_secret_of_one_kind_opens_no_door_of_the_other(self) -> None:
        token, secret = make_service_token()
        assert service_token_of(f"Bearer {secret}") == token
        assert fresh(token).last_used_at is not None
        with pytest.raises(ApiKeyError):
            api_key_of(f"Bearer {secret}")
        with pytest.raises(ServiceTokenError):
            service_token_of(f"Bearer {make_api_key()}")
