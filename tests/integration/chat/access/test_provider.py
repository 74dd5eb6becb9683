"""Signing in by the organisation's OpenID provider: who gets in, what a lie meets, and what a check closes."""

import logging
from datetime import timedelta
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from allauth.socialaccount.models import SocialAccount, SocialToken
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.contrib.auth.models import Group, Permission, User
from django.contrib.auth.signals import user_logged_in
from django.core.cache import cache
from django.test import Client, TestCase
from django.utils import timezone

from agents.cache import TtlCache
from agents.models import Audience, ProviderGroup
from chat.access.sign_in import RECHECK, VOUCHED
from tests.constants import override
from tests.factories import fresh, make_deployment, make_user
from tests.servers.lying_provider import LyingProvider
from tools_registry.catalog import tags_of


class ProviderTest(TestCase):
    def setUp(self) -> None:
        self.provider = self.enterContext(LyingProvider())
        url = self.provider.url
        desk = {"OIDC_SERVER_URL": url, "OIDC_CLIENT_ID": "desk", "OIDC_CLIENT_SECRET": "s"}
        self.enterContext(self.settings(**desk))
        self.group = Group.objects.create(name="Agents")
        ProviderGroup.objects.create(name="/agents", group=self.group)
        self.deployment = make_deployment(audience=Audience.GROUPS)
        self.deployment.groups.add(self.group)
        self.door = f"/d/{self.deployment.slug}/"

    def come(self, client: Client | None = None, **query: str) -> Any:
        """What the last page of a sign-in says."""
        browser = client or self.client
        sent = browser.get("/login/organisation/", {"next": self.door, **query})
        assert sent.status_code == 302, sent
        asked = parse_qs(urlsplit(sent["Location"]).query)
        assert (asked["code_challenge_method"], asked["client_id"]) == (["S256"], ["desk"])
        self.provider.nonce = asked["nonce"][0]
        return browser.get("/login/organisation/back/", {"code": "c", "state": asked["state"][0]})

    def due(self, age: timedelta = RECHECK) -> None:
        """The check is due, the provider's last word so old, and its last silence over."""
        cache.clear()
        SocialToken.objects.update(expires_at=timezone.now())
        SocialAccount.objects.update(last_login=timezone.now() - age)

    def is_open(self) -> bool:
        return bool(self.client.get(self.door).status_code == 200)


class FirstSignInTests(ProviderTest):
    def test_account_is_made_with_the_groups_of_the_table(self) -> None:
        rights = Group.objects.get(name="Rédaction")
        ProviderGroup.objects.create(name="redaction", group=rights)
        self.provider.person |= {"roles": ["redaction", "other", 7], "name": "Marie\0 Curie", "email": ["no address"]}
        self.assertRedirects(self.come(), self.door)
        user = User.objects.get()
        assert (user.username, user.first_name, user.is_staff, user.has_usable_password()) == (
            "marie",
            "Marie",
            True,
            False,
        )
        assert set(user.groups.all()) == {self.group, rights}
        token = SocialToken.objects.get()
        assert (token.token, token.token_secret) == ("", "rt-1")

    def test_only_a_verified_address_leads_to_an_account_of_staff_and_never_to_a_superuser(self) -> None:
        own, hers = make_user(email="Marie@Example.org"), Group.objects.create(name="À la main")
        own.groups.add(hers)
        make_user(email="root@example.org", is_superuser=True)
        address, expected = "email", []
        for number, (email, is_verified) in enumerate(
            [("marie@example.org", False), ("MARIE@example.org", True), ("root@example.org", True), ("n@x.org", True)]
        ):
            self.provider.person |= {"sub": str(number), address: email, "email_verified": is_verified}
            self.come(client := Client())
            expected.append(User.objects.get(pk=client.session["_auth_user_id"]))
        assert expected[1] == own
        assert set(own.groups.all()) == {hers, self.group}
        assert not fresh(own).has_usable_password()
        assert [user.email for user in expected] == ["", "Marie@example.org", "", "n@x.org"]

    def test_addresses_and_keys_are_read_once_and_visits_are_counted(self) -> None:
        self.come()
        self.provider.lies = {"/.well-known/openid-configuration": 503, "/keys": 503}
        self.come(Client())
        with self.settings(ACCOUNT_RATE_LIMITS={"provider": "2/m/ip"}):
            visits = [self.client.get("/login/organisation/").status_code for _ in range(3)]
        assert visits == [302, 302, 429]

    def test_a_fault_of_ours_is_no_wrong_answer_of_the_provider(self) -> None:
        with patch.object(user_logged_in, "send", side_effect=KeyError), pytest.raises(KeyError):
            self.come()

    def test_an_address_of_ours_leads_nowhere_else_and_changes_nothing_of_what_is_asked(self) -> None:
        said = self.come(next="https://evil.example/", process="connect", scope="admin", auth_params="nonce=mine")
        self.assertRedirects(said, "/", target_status_code=200)


class LieTests(ProviderTest):
    def refused(self, status: int = 403) -> None:
        TtlCache.clear_all()
        with self.assertLogs("", logging.WARNING) as logged:
            said = self.come()
        assert said.status_code == status, said.content
        self.assertContains(said, "otre organisation", status_code=status)
        assert "_auth_user_id" not in self.client.session
        assert not User.objects.exists()
        assert not any(word in str(logged.output) for word in ("at-1", "rt-1", "marie", "248289761001"))

    def test_each_lie_is_refused_with_a_sentence(self) -> None:
        whole = self.provider.token()
        by_public_key = {"alg": "HS256", "kid": "1", "typ": "JWT"}
        shape = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        pem = self.provider.key.public_key().public_bytes(*shape)
        lies: dict[str, dict[str, Any]] = {
            "audience": {"aud": "another"},
            "issuer": {"iss": "https://evil.example"},
            "nonce": {"nonce": "of another sign-in"},
            "no nonce": {"nonce": None},
            "expired": {"exp": 1},
            "for ever": {"exp": None},
            "party": {"aud": ["desk", "b"], "azp": "b"},
            "another's page": {"/me": {"sub": "7"}},
            "no token": {"/token": {"access_token": "at-1"}},
            "no signature": {"/token": {"access_token": "at-1", "id_token": whole.rpartition(".")[0] + "."}},
            "signed by what is public": {
                "/token": {
                    "access_token": "at-1",
                    "id_token": jwt.api_jws.encode(b"{}", pem[27:80], "HS256", by_public_key),
                }
            },
            "no object": {"/token": ["at-1"]},
            "no keys": {"/keys": {"keys": []}},
            "refused": {"/token": 400},
        }
        for name, lie in lies.items():
            with self.subTest(name):
                self.provider.lies = lie
                self.refused()

    def test_another_key_is_refused(self) -> None:
        self.provider.key = ec.generate_private_key(ec.SECP256R1())
        self.refused()

    def test_addresses_of_another_issuer_are_refused(self) -> None:
        self.provider.lies = {"/.well-known/openid-configuration": {"issuer": "https://evil.example"}}
        said = self.client.get("/login/organisation/")
        self.assertContains(said, "n’est pas valable", status_code=403)

    @override(PROVIDER_SECONDS=0.2)
    def test_one_that_is_slow_or_down_is_told(self) -> None:
        self.provider.lies = {"/token": 502}
        self.refused(503)
        self.provider.pause = 1.0
        TtlCache.clear_all()
        assert self.client.get("/login/organisation/").status_code == 503
        self.provider.server_close()
        TtlCache.clear_all()
        self.assertContains(self.client.get("/login/organisation/"), "ne répond pas", status_code=503)


class CheckTests(ProviderTest):
    def setUp(self) -> None:
        super().setUp()
        self.come()

    def test_a_group_taken_away_closes_its_door_at_the_next_check(self) -> None:
        self.provider.person["groups"] = []
        assert self.is_open()
        assert "Agents" in tags_of(User.objects.get().pk)
        self.due()
        assert not self.is_open()
        assert "Agents" not in tags_of(User.objects.get().pk)
        assert "_auth_user_id" in self.client.session
        assert self.provider.grants[-1]["refresh_token"] == "rt-1"
        # The one that was given for it is the next to be shown.
        self.provider.person["groups"] = ["/agents"]
        self.due()
        assert self.is_open()
        assert self.provider.grants[-1]["refresh_token"] == "rt-2"

    def test_an_account_that_is_gone_or_another_s_is_signed_out_everywhere(self) -> None:
        other = Client()
        for lie in ({"/token": 400}, {"/me": {"sub": "7"}}):
            self.provider.lies = {}
            self.come(), self.come(other)
            self.provider.lies = lie
            self.due()
            assert [browser.get(self.door).status_code for browser in (self.client, other)] == [404, 404]
            assert not User.objects.get().groups.exists()

    @override(SLOW_SECONDS=0.0)
    def test_after_a_slow_answer_or_none_nobody_else_asks_for_a_minute_and_the_last_word_holds_for_a_time(self) -> None:
        self.provider.person["sub"] = "2"
        self.come(other := Client())
        for lie, age, expected in (
            ({}, RECHECK, 200),
            ({"/token": 503}, RECHECK, 200),
            ({"/token": 503}, VOUCHED, 404),
        ):
            self.provider.lies = lie
            self.due(age + timedelta(minutes=1))
            asked = len(self.provider.grants)
            assert [browser.get(self.door).status_code for browser in (self.client, other)] == [expected] * 2
            assert len(self.provider.grants) == asked + 1
        self.provider.lies = {}
        assert not self.is_open()

    def test_a_line_that_leaves_the_table_takes_its_group_back(self) -> None:
        ProviderGroup.objects.update(group=Group.objects.create(name="Autre"))
        self.due()
        assert not self.is_open()
        assert [group.name for group in User.objects.get().groups.all()] == ["Autre"]
        ProviderGroup.objects.all().delete()
        self.due()
        assert not self.is_open()
        assert not User.objects.get().groups.exists()

    def test_admin_closes_with_the_group_and_what_was_given_by_hand_stays(self) -> None:
        user, hand = User.objects.get(), Group.objects.create(name="À la main")
        user.groups.add(hand)
        self.group.permissions.add(Permission.objects.get(codename="view_agent"))
        self.due()
        assert self.client.get("/admin/").status_code == 302
        user.groups.remove(self.group)
        self.due()
        assert self.client.get("/admin/").status_code == 200
        self.provider.person["groups"] = []
        self.due()
        assert self.client.get("/admin/").status_code == 302
        assert (list(user.groups.all()), fresh(user).is_staff) == ([hand], False)
