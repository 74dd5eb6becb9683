"""Signing in by a real directory."""

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from allauth.socialaccount.models import SocialAccount, SocialToken
from django.contrib.auth.models import Group, User
from django.test import Client, TestCase
from django.utils import timezone

from agents.models import Audience, ProviderGroup
from chat.access.sign_in import VOUCHED
from tests.factories import make_deployment, make_user
from tests.servers.directory import ADMIN, BASE, PASSWORD, directory
from tests.servers.loopback import LoopbackServer, QuietHandler

RIGHT = "polonium"
BACKENDS = ["django.contrib.auth.backends.ModelBackend", "chat.access.directory.DirectoryBackend"]


class DirectoryTests(TestCase):
    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.url, self.directory = self.enterContext(directory(folder))
        address = {"LDAP_URL": f"{self.url}/{BASE}?uid?sub?(objectClass=person)", "AUTHENTICATION_BACKENDS": BACKENDS}
        self.enterContext(self.settings(**address, LDAP_BIND_DN=ADMIN, LDAP_BIND_PASSWORD=PASSWORD))
        group = Group.objects.create(name="Agents")
        for name in ("agents", "old"):
            ProviderGroup.objects.create(name=name, group=group)
        deployment = make_deployment(audience=Audience.GROUPS)
        deployment.groups.add(group)
        self.door = f"/d/{deployment.slug}/"

    def sign_in(self, login: str = "marie", password: str = RIGHT) -> Any:
        self.client = Client()
        return self.client.post("/login/", {"login": login, "password": password, "next": self.door})

    def is_open(self) -> bool:
        SocialToken.objects.update(expires_at=timezone.now())
        return bool(self.client.get(self.door).status_code == 200)

    def test_who_knows_the_password_has_an_account_and_its_groups(self) -> None:
        self.assertRedirects(self.sign_in("MARIE"), self.door)
        user = User.objects.get()
        fields = (user.username, user.first_name, user.email, user.has_usable_password())
        assert fields == ("marie", "Marie", "marie@example.org", False)
        self.sign_in()
        assert User.objects.count() == 1
        for login, password in (("marie", "radium"), ("*", "polonium"), ("marie)(uid=*", "polonium"), ("x", "y")):
            assert self.sign_in(login, password).status_code == 200, login
            assert "_auth_user_id" not in self.client.session

    def test_name_of_an_account_with_a_password_is_nobody_else_s(self) -> None:
        account = make_user(username="marie", password="of-this-site")
        self.assertContains(self.sign_in(), "ne vont pas ensemble")
        account.set_unusable_password()
        account.save()
        self.assertRedirects(self.sign_in(), self.door)

    def test_a_group_or_a_person_taken_out_there_is_out_here_at_the_next_check(self) -> None:
        import ldap

        self.sign_in()
        assert self.is_open()
        self.directory.modify_s(f"cn=agents,{BASE}", [(ldap.MOD_DELETE, "member", f"uid=Marie,{BASE}".encode())])
        assert self.is_open()
        self.directory.modify_s(f"cn=old,{BASE}", [(ldap.MOD_DELETE, "memberUid", b"marie")])
        assert not self.is_open()
        assert self.client.get("/password/none/").status_code == 200
        self.directory.delete_s(f"uid=Marie,{BASE}")
        assert not self.is_open()
        assert self.client.get("/password/none/").status_code == 302

    def test_one_that_is_down_or_slow_is_told_and_its_last_word_holds_for_a_time(self) -> None:
        self.sign_in()
        staff = make_user(username="chef", password="of-this-site")
        with LoopbackServer(QuietHandler) as silent, self.settings(LDAP_URL=f"ldap://127.0.0.1:{silent.port}/{BASE}"):
            assert self.is_open()
            self.assertContains(self.sign_in(), "ne répond pas")
            assert self.sign_in("chef", "of-this-site").status_code == 302
            self.client.force_login(User.objects.get(username="marie"), BACKENDS[1])
            SocialAccount.objects.update(last_login=timezone.now() - VOUCHED - timedelta(minutes=1))
            assert not self.is_open()
        assert staff.is_active
