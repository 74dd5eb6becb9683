"""Signing in on the site itself, for people who may not open the admin."""

from django.test import TestCase

from agents.models import Audience
from tests.factories import make_deployment, make_user


class LoginTests(TestCase):
    def test_person_without_admin_rights_reaches_a_deployment_for_signed_in_users(self) -> None:
        deployment = make_deployment(audience=Audience.SIGNED_IN)
        user = make_user()
        user.set_password("un-mot-de-passe")
        user.save()
        address = f"/d/{deployment.slug}/"
        closed = self.client.get(address)
        assert closed.status_code == 404
        self.assertContains(closed, f"/login/?next={address}", status_code=404)
        data = {"username": user.get_username(), "password": "un-mot-de-passe", "next": address}
        self.assertRedirects(self.client.post("/login/", data), address)

    def test_wrong_password_is_said_and_nothing_is_opened(self) -> None:
        page = self.client.post("/login/", {"username": "x", "password": "y"})
        self.assertContains(page, 'role="alert"')
        assert "_auth_user_id" not in self.client.session

    def test_next_never_leads_to_another_site(self) -> None:
        user = make_user()
        user.set_password("un-mot-de-passe")
        user.save()
        data = {"username": user.get_username(), "password": "un-mot-de-passe", "next": "https://evil.example/"}
        self.assertRedirects(self.client.post("/login/", data), "/")

    def test_signing_out_leads_back_to_the_page(self) -> None:
        self.client.force_login(make_user())
        self.assertContains(self.client.get("/"), "Se déconnecter", status_code=200)
        self.assertRedirects(self.client.post("/logout/"), "/")
