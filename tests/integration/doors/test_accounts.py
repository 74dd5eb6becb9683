"""Nobody is made more than the maker."""

from django.contrib.auth.models import User
from django.test import TestCase

from agents.admin_base import admin_url
from tests.admin_pages import client_of, make_staff
from tests.factories import make_user


class AccountsTest(TestCase):
    """The right to change accounts is not every right."""

    def setUp(self) -> None:
        self.keeper = make_staff("auth.view_user", "auth.change_user", "auth.delete_user")
        self.client = client_of(self.keeper)

    def test_superusers_account_is_not_changed_by_others(self) -> None:
        above = make_user(is_superuser=True, is_staff=True)
        for page in ("password", "change", "delete"):
            address = f"/admin/auth/user/{above.pk}/{page}/"
            new = {"password1": "autre-Secret-4711", "password2": "autre-Secret-4711"}
            assert self.client.post(address, {**new, "post": "yes"}).status_code == 403, page

    def test_nobody_makes_themselves_a_superuser(self) -> None:
        address = admin_url(User, "change", self.keeper.pk)
        own = {"username": self.keeper.username, "is_active": "on", "is_staff": "on"}
        joined = {"date_joined_0": "2026-01-01", "date_joined_1": "10:00:00"}
        right = str(self.keeper.user_permissions.all()[0].pk)
        forged = {"is_superuser": "on", "user_permissions": right}
        assert self.client.post(address, {**own, **joined, **forged}).status_code == 302
        self.keeper.refresh_from_db()
        assert not self.keeper.is_superuser
        assert self.keeper.user_permissions.count() == 3
