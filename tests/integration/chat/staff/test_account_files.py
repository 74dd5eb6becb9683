"""Accounts as a file: looked at first, then saved as by hand."""

import html
import re
from typing import Any

from auditlog.models import LogEntry
from django.contrib.auth.models import Group, User
from django.core import mail
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import TestCase, override_settings

from tests.admin_pages import client_of, make_staff, superuser_client
from tests.constants import override
from tests.factories import fresh, make_user

IMPORT, EXPORT = "/admin/auth/user/import/", "/admin/auth/user/export/"


class AccountFilesTest(TestCase):
    def setUp(self) -> None:
        self.lea = make_user(username="=lea", email="Lea@example.org", first_name="Léa")
        self.lea.groups.add(Group.objects.create(name="Caisse, guichets"), Group.objects.get(name="Lecture"))
        self.root = make_user(username="root", email="root@example.org", is_superuser=True)
        self.staff = make_staff("auth.view_user", "auth.add_user", "auth.change_user", username="me")
        self.client = client_of(self.staff)

    def upload(self, data: str | bytes) -> Any:
        file = SimpleUploadedFile("a.csv", data.encode() if isinstance(data, str) else data)
        return self.client.post(IMPORT, {"file": file})

    def confirm(self, page: Any) -> Any:
        found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page.content.decode(), re.DOTALL)
        assert found is not None
        return self.client.post(IMPORT, {"text": html.unescape(found[1])}, follow=True)

    def reasons(self, data: str) -> list[tuple[int, str]]:
        return [(each.line, each.reason) for each in self.upload(data).context["failed"]]

    def test_preview_writes_nothing_and_what_it_shows_is_saved_as_by_hand(self) -> None:
        file = (
            "E-mail;Prénom;Groupes;Actif\nlea@example.org;Lea;Lecture | Rédaction;oui\nnew@example.org;Zoé;Rédaction;\n"
        )
        page = self.upload(file.encode("cp1252"))
        for shown in ("Léa → Lea", "new@example.org", "À enregistrer : 2", "Lecture, Rédaction"):
            self.assertContains(page, shown)
        assert (User.objects.count(), fresh(self.lea).first_name) == (3, "Léa")
        with override_settings(HAS_MAIL=True):
            self.assertContains(self.confirm(page), "Invitations envoyées : 1")
        new = User.objects.get(username="new@example.org")
        assert (new.is_staff, new.has_usable_password(), new.first_name) == (True, False, "Zoé")
        assert [message.to for message in mail.outbox] == [["new@example.org"]]
        assert {group.name for group in self.lea.groups.all()} == {"Lecture", "Rédaction"}
        assert fresh(self.lea).email == "Lea@example.org"
        for user in (new, self.lea):
            assert LogEntry.objects.get_for_object(user).latest("pk").actor == self.staff
        self.assertContains(self.confirm(self.upload("username\nnobody\n")), "Comptes sans invitation : 1")

    def test_each_refused_row_has_its_line_and_reason(self) -> None:
        rows = ("a@b", "lea@example.org,Lecture", "LEA@example.org", "me@x.org,Nulle part", "x@x.org,,peut-être", ",")
        found = self.reasons("email,groups,active\n" + "\n".join(rows) + "\n=lea@x.org;,,,z\n")
        for (line, reason), said in zip(found, ("2", "4", "5", "6", "8"), strict=False):
            assert str(line) == said, reason
        for word in ("valide", "ligne 3", "Nulle part", "ni oui ni non", "guillemets"):
            assert any(word in reason for _line, reason in found), word
        make_user(username="twin", email="lea@example.org")
        assert "plusieurs comptes" in self.reasons("email\nlea@example.org\n")[0][1]

    def test_no_row_touches_a_superuser_or_oneself_and_none_gives_more_than_the_columns(self) -> None:
        found = self.reasons("username,groups,is_superuser\nroot,Lecture,yes\nme,Exploitation,yes\n=lea,,yes\n")
        assert [line for line, reason in found if "à la main" in reason] == [2, 3]
        assert not fresh(self.lea).is_superuser

    def test_what_is_exported_changes_nothing(self) -> None:
        file = self.client.get(EXPORT).content
        assert b"\r\n'=lea," in file
        found = self.upload(file).context
        assert [found[name] for name in ("unchanged", "changing", "failed")] == [3, [], []]

    def test_it_asks_for_both_rights_and_a_bounded_file(self) -> None:
        for text in ("a,b\n1,2\n", b"\0\0", "email\n" + "x" * 300_000):
            assert self.upload(text).context["form"].errors, text[:9]
        with override(MAX_ROWS=1):
            assert "limite de 1" in self.reasons("username\na\nb\n")[0][1]
        for right in ("add", "change"):
            assert client_of(make_staff(f"auth.{right}_user")).get(IMPORT).status_code == 403
        assert client_of(make_staff("auth.add_user")).get(EXPORT).status_code == 403
        self.assertContains(superuser_client().get("/admin/auth/user/"), IMPORT)
