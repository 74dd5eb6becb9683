"""Keys of `/v1` as staff make them: shown once, kept as a hash."""

import re
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client, TestCase

from chat.access.permissions import api_key_of, service_token_of
from chat.errors import ApiKeyError, ServiceTokenError
from chat.models import ApiKey, ServiceToken
from tests.factories import make_deployment, make_user


class AdminTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment()
        self.client = Client()
        self.client.force_login(make_user(is_staff=True, is_superuser=True))

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

    def test_key_is_shown_once_and_opens_the_door(self) -> None:
        secret = self.create()
        key = ApiKey.objects.get()
        assert self.opens(secret)
        assert list(key.deployments.all()) == [self.deployment]
        for page in ("", f"{key.pk}/change/"):
            shown = self.client.get(f"/admin/chat/apikey/{page}").content.decode()
            assert key.prefix in shown
            assert secret not in shown

    def test_revoked_key_opens_nothing(self) -> None:
        secret = self.create()
        chosen = {"action": "revoke", "_selected_action": [ApiKey.objects.get().pk]}
        self.client.post("/admin/chat/apikey/", chosen)
        assert not self.opens(secret)

    def test_renaming_keeps_the_secret(self) -> None:
        secret = self.create()
        key = ApiKey.objects.get()
        self.client.post(
            f"/admin/chat/apikey/{key.pk}/change/", {"name": "renamed", "deployments": [self.deployment.pk]}
        )
        key.refresh_from_db()
        assert key.name == "renamed"
        assert self.opens(secret)


class BearerTests(TestCase):
    def test_row_without_a_secret_opens_no_door(self) -> None:
        ApiKey.objects.create(name="made by hand")
        ServiceToken.objects.create(name="made by hand", all_deployments=True)
        for header in ("", "Bearer", "Bearer  ", "Basic abc"):
            with self.assertNumQueries(0), pytest.raises(ApiKeyError):
                api_key_of(header)
            with self.assertNumQueries(0), pytest.raises(ServiceTokenError):
                service_token_of(header)


class CommandTests(TestCase):
    def test_key_is_printed_and_opens_the_deployments_named(self) -> None:
        deployment, out = make_deployment(), StringIO()
        call_command("issue_api_key", "site", "--deployment", deployment.slug, stdout=out)
        headers = {"Authorization": f"Bearer {out.getvalue().strip()}"}
        listed = Client().get("/v1/models", headers=headers).json()
        assert [row["id"] for row in listed["data"]] == [deployment.slug]

    def test_mistakes_are_named(self) -> None:
        deployment = make_deployment()
        named = ("issue_api_key", "site", "--deployment")
        with pytest.raises(CommandError, match="no deployment absent"):
            call_command(*named, "absent")
        with pytest.raises(CommandError, match="expires-days"):
            call_command(*named, deployment.slug, "--expires-days", "0")
        call_command(*named, deployment.slug, stdout=StringIO())
        with pytest.raises(CommandError, match="exists already"):
            call_command(*named, deployment.slug)
