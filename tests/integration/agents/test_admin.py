"""The admin of agents, deployments, settings and accounts."""

from typing import Any
from unittest import mock

from django.contrib.auth.models import Group, User
from django.test import TestCase

from agents.admin.deployments import setting_fieldsets
from agents.admin_base import admin_url
from agents.effective import agent_setting
from agents.models import Agent, Deployment, RuntimeSettings
from agents.settings import KNOBS, setting_fields
from tests.admin_pages import client_of, make_staff, superuser_client
from tests.doors.admin import form_of
from tests.factories import fresh, make_agent, make_deployment, make_user


class AccountFormTest(TestCase):
    def test_account_with_a_role_is_made_on_one_page_and_opens_the_admin(self) -> None:
        client, address = superuser_client(), admin_url(User, "add")
        self.assertNotContains(client.get(address), "Nature, dernier usage")
        secret = dict.fromkeys(("password1", "password2"), "autre-Secret-4711")
        for group in (Group.objects.get(name="Relecture"), Group.objects.create(name="visiteurs")):
            client.post(address, dict(form_of(client.get(address)), username=group.name, groups=group.pk, **secret))
        assert [User.objects.get(username=name).is_staff for name in ("Relecture", "visiteurs")] == [True, False]

    def test_access_to_the_admin_that_was_taken_away_stays_away(self) -> None:
        client, account = superuser_client(), make_user(is_staff=True)
        roles = Group.objects.exclude(permissions=None)[:3]
        account.groups.set(roles)
        address = admin_url(User, "change", account.pk)
        self.assertContains(client.get(address), "Nature, dernier usage")
        for groups in (roles[:2], roles[:1]):  # With the box unticked, then as it is.
            sent = dict(form_of(client.get(address)), groups=[group.pk for group in groups])
            sent.pop("is_staff", None)
            assert client.post(address, sent).status_code == 302
            assert (account.groups.count(), fresh(account).is_staff) == (len(groups), False)


class AgentFormTest(TestCase):
    def test_every_setting_has_a_field(self) -> None:
        shown = {name for _title, group in setting_fieldsets(KNOBS) for name in group["fields"]}
        assert shown == set(KNOBS)
        assert all(str(field.label)[0].isupper() for field in setting_fields().values())

    def test_empty_inherits_and_three_states_are_kept(self) -> None:
        agent, client = make_agent(match_count=7), superuser_client()
        address = admin_url(Agent, "change", agent.pk)
        for sent, stored in (("false", False), ("true", True), ("unknown", None)):
            data = dict(form_of(client.get(address)), match_count="", direct_answers=sent)
            assert client.post(address, data).status_code == 302
            own = Agent.objects.get(pk=agent.pk).settings
            assert (own.get("direct_answers"), own.get("match_count")) == (stored, None)

    @mock.patch("agents.admin.deployments.language_model", mock.Mock())
    def test_who_may_only_look_reads_what_is_set_and_nothing_of_what_is_inherited(self) -> None:
        agent = make_agent(match_count=7, tool_mode="local")
        deployment = make_deployment(agent, config_overlay={"max_rounds": 4, "indexing_method": "legacy"})
        make_deployment(agent, slug="another")
        reader = client_of(make_staff("agents.view_agent", "agents.view_deployment", "agents.view_runtimesettings"))
        page = reader.get(admin_url(Agent, "change", agent.pk)).content.decode()
        assert "Passages recherchés" in page
        assert "Local : les plus proches" in page
        assert 'name="match_count"' not in page
        page = reader.get(admin_url(Deployment, "change", deployment.pk)).content.decode()
        assert "legacy" in page
        assert reader.get(admin_url(RuntimeSettings, "change", 1)).status_code == 200

    def test_the_only_desk_of_an_agent_has_its_settings_and_a_second_one_divides_them(self) -> None:
        agent, client = make_agent(settings={}), superuser_client()
        desk = make_deployment(agent, config_overlay={"page_refresh_hours": 3})
        address = admin_url(Agent, "change", agent.pk)
        self.assertNotContains(page := client.get(address), 'name="match_count"')
        self.assertContains(page, admin_url(Deployment, "change", desk.pk))
        assert agent_setting(agent, "page_refresh_hours") == 3
        make_deployment(agent, slug="another", config_overlay={"page_refresh_hours": 5})
        Agent.objects.update(settings={"match_count": 7})
        self.assertContains(client.get(address), 'name="match_count"')
        client.post(address, dict(form_of(page), name="Autre"))  # As it was opened before.
        assert (fresh(agent).name, agent.settings) == ("Autre", {"match_count": 7})
        assert agent_setting(agent, "page_refresh_hours") == 24


class DeploymentFormTest(TestCase):
    def setUp(self) -> None:
        self.client = superuser_client()
        self.deployment = make_deployment(make_agent(match_count=9), config_overlay={"match_count": 4})
        self.address = admin_url(Deployment, "change", self.deployment.pk)

    def save(self, **changes: Any) -> dict[str, Any]:
        response = self.client.post(self.address, dict(form_of(self.client.get(self.address)), **changes))
        assert response.status_code == 302, getattr(response, "context", None) and response.context["errors"]
        self.deployment.refresh_from_db()
        overlay: dict[str, Any] = self.deployment.config_overlay
        return overlay

    def test_the_overlay_is_typed_fields_with_what_the_agent_gives(self) -> None:
        page = self.client.get(self.address)
        form = page.context["adminform"].form
        assert "config_overlay" not in form.fields
        self.assertContains(page, 'x-show="audience == ')
        assert form["match_count"].value() == 4
        assert "Hérité : 9 (agent)" in form.fields["match_count"].help_text
        assert "Q/R Atomique" in form.fields["indexing_method"].help_text
        self.assertContains(page, f"/d/{self.deployment.slug}/")

    def test_only_set_keys_that_this_version_knows_are_written(self) -> None:
        self.deployment.config_overlay |= {"future": [1], "temperature": 1.0}
        self.deployment.save()
        assert self.save(name="Autre nom") == {"match_count": 4, "temperature": 1.0}
        self.assertNotContains(self.client.get(self.address), "Température")  # Without a model it is kept, not shown.
        overlay = self.save(match_count="", context_exchanges="0", direct_answers="false")
        assert overlay == {"context_exchanges": 0, "direct_answers": False, "temperature": 1.0}
        assert self.save(indexing_method="legacy")["indexing_method"] == "legacy"
        assert "indexing_method" not in self.save(indexing_method="")

    def test_what_is_asked_of_everybody_is_open_and_the_rest_is_folded(self) -> None:
        first, *others = self.client.get(self.address).context["adminform"]
        assert (len(first.fields), [each for each in others if not each.is_collapsible]) == (12, [])

    def test_a_further_agent_can_be_added_and_the_default_one_not_twice(self) -> None:
        other = make_agent()
        sent = form_of(self.client.get(self.address))
        row = {"specialists-TOTAL_FORMS": "1", "specialists-0-position": "1"}
        refused = self.client.post(self.address, {**sent, **row, "specialists-0-agent": str(self.deployment.agent_id)})
        assert refused.status_code == 200
        assert not self.deployment.specialists.exists()
        self.client.post(self.address, {**sent, **row, "specialists-0-agent": str(other.pk)})
        assert self.deployment.specialists.get().agent == other

    def test_a_deployment_can_be_added_with_settings_whose_values_are_checked(self) -> None:
        address = admin_url(Deployment, "add")
        typed = {"name": "Site public", "slug": "public", "guard_rail_threshold": "0.3"}
        data = form_of(self.client.get(address)) | typed | {"agent": self.deployment.agent_id}
        refused = self.client.post(address, {**data, "match_count": "51"})
        assert list(refused.context["adminform"].form.errors) == ["match_count"]
        response = self.client.post(address, data)
        assert response.status_code == 302, response.context["errors"]
        added = Deployment.objects.get(slug="public", is_active=False, audience="signed_in")
        assert added.config_overlay == {"guard_rail_threshold": 0.3}


class RuntimeSettingsTest(TestCase):
    def test_the_list_is_the_form_and_looking_writes_nothing_and_saving_the_one_row(self) -> None:
        client, address = superuser_client(), admin_url(RuntimeSettings, "change", 1)
        page = client.get(admin_url(RuntimeSettings, "changelist"), follow=True)
        assert not RuntimeSettings.objects.exists()
        response = client.post(address, dict(form_of(page), match_count="8"))
        assert response.status_code == 302
        assert RuntimeSettings.objects.get().values == {"match_count": 8}
