"""Invitations and forgotten passwords by mail: who gets a link, and what it opens."""

import re
from typing import Any
from unittest.mock import patch

from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client, TestCase, override_settings

from tests.admin_pages import client_of, make_staff, run_action
from tests.factories import make_user
from tests.waiting import wait_until

BROKEN = {"EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend", "EMAIL_HOST": "127.0.0.1", "EMAIL_PORT": 1}


class MailTests(TestCase):
    def ask(self, email: str) -> Any:
        return self.client.post("/password/new/", {"email": email}, follow=True)

    def choose(self, password: str) -> Any:
        """Follow the link of the last mail."""
        link = re.search(r"http://testserver(/\S+)", str(mail.outbox[-1].body))
        assert link is not None, mail.outbox[-1].body
        page = Client().get(link[1], follow=True)
        form = {"password1": password, "password2": password}
        return page.client.post(page.redirect_chain[-1][0], form, follow=True) if page.redirect_chain else page

    def test_nobody_learns_who_has_an_account_and_those_of_the_organisation_get_no_link(self) -> None:
        make_user(email="here@example.org", password="x")
        SocialAccount.objects.create(user=make_user(email="sso@example.org", password="x"), provider="oidc", uid="1")
        make_user(email="none@example.org")
        make_user(email="gone@example.org", password="x", is_active=False)
        with override_settings(**BROKEN), self.assertLogs("chat.access.sign_in", "WARNING") as logged:
            pages = [self.ask(f"{name}@example.org") for name in ("sso", "none", "gone", "unknown", "here")]
            wait_until(lambda: bool(logged.output))
        assert {page.content for page in pages} == {pages[0].content}
        assert logged.output == ["WARNING:chat.access.sign_in:mail not sent reason=ConnectionRefusedError"]

    def test_staff_invite_who_has_no_way_in_and_a_forgotten_password_is_chosen_anew(self) -> None:
        make_user(username="new", email="New@example.org", password=None)
        make_user(email="root@example.org", password=None, is_superuser=True)
        make_user(email="old@example.org", password="x")
        client = client_of(make_staff("auth.view_user", "auth.change_user"))
        with override_settings(**BROKEN):
            self.assertContains(run_action(client, "invite", *User.objects.all()), "a refusé les invitations de : new.")
        with patch("agents.admin.accounts.MOST_INVITED", 0):
            self.assertContains(run_action(client, "invite", *User.objects.all()), "Rien n’a été envoyé")
        self.assertContains(run_action(client, "invite", *User.objects.all()), "Invitations envoyées : 1")
        self.assertRedirects(self.choose("un-Secret-4711"), "/login/")
        self.ask("new@EXAMPLE.org")
        wait_until(lambda: len(mail.outbox) == 2)
        assert [message.to for message in mail.outbox] == [["New@example.org"]] * 2
        self.assertRedirects(self.choose("un-Autre-4711"), "/login/")
        assert self.client.login(username="new", password="un-Autre-4711")
        self.assertContains(self.choose("un-Dernier-4711"), "déjà servi")
