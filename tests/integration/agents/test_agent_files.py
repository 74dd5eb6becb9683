"""Agents as files: a round trip gives the same, nothing is overwritten, and no archive gets further than it may."""

import io
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import TestCase, override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase as PropertyTestCase
from PIL import Image

from agents.admin_base import admin_url
from agents.face import logo_png
from agents.models import Agent, Deployment, Logo
from agents.staff.agent_files import AgentFileError, export_agent, import_agent, open_agent_file
from chat.models import GoldenSet, QuestionOrigin
from chat.staff.golden.sets import add_questions
from faqs.models import LearnedResponse
from knowledge.indexing.path import store_document
from knowledge.models import Category, Document, Synonym, WebSource
from tests.admin_pages import client_of, make_staff, shown_messages, superuser_client
from tests.doors.admin import in_role
from tests.factories import make_agent, make_deployment, make_learned, make_synonym, make_user
from tools_registry.models import ToolExample, ToolOverride, ToolSource

_SECRET = "tres-secret-4711"


def exported(agent: Agent) -> bytes:
    target = io.BytesIO()
    export_agent(agent, target)
    return target.getvalue()


def imported(data: bytes, slug: str = "") -> Any:
    return import_agent(open_agent_file(io.BytesIO(data)), slug=slug, by=make_user())


def empty_site() -> None:
    Agent.objects.all().delete()
    Category.objects.all().delete()
    ToolOverride.objects.all().delete()


def make_whole_agent() -> Agent:
    """One of everything."""
    agent = make_agent(slug="desk", name="Guichet", system_prompt="En vers.", match_count=7)
    picture = io.BytesIO()
    Image.new("RGB", (48, 16), "#7a1fa2").save(picture, "PNG")
    logo = Logo.of(logo_png(ContentFile(picture.getvalue())))
    face: dict[str, Any] = {"name_en": "Desk", "accent": "#7a1fa2", "logo": logo}
    overlay = {"memory": False}
    make_deployment(agent, slug="desk", config_overlay=overlay, welcome="Bonjour", **face)
    category = Category.objects.create(name="Horaires")
    for name, text in (("a/b.md", "# A\n\nUn."), ("c.txt", "Deux.")):
        stored = store_document(agent=agent, name=name, data=text.encode(), category=category)
        stored.document.title = f"Titre {name}"
        stored.document.enabled = name != "c.txt"
        stored.document.save()
    make_synonym(agent, "RQTH", "reconnaissance de travailleur handicapé")
    Synonym.objects.update(state="confirmed")
    WebSource.objects.create(agent=agent, url="https://www.example.org/", kind="page")
    answer = make_learned(agent, question="Quand ouvrez-vous ?", answer="À 9 h.")
    answer.phrasings.create(text="Vos horaires ?")
    tool = ToolOverride.objects.create(tool_name="find_book", description="Trouve un livre.")
    tool.agents.add(agent)
    ToolExample.objects.create(override=tool, text="Où est ce livre ?")
    ToolSource.objects.create(
        slug="s", name="S", kind="mcp_http", url="https://x.example", headers={"Authorization": _SECRET}
    )
    golden = GoldenSet.objects.create(name="Jeu", deployment=agent.deployments.get(), is_gate=True)
    expected = {"question": "Quand ouvrez-vous ?", "contains": ["9 h"]}
    add_questions(golden, [expected], QuestionOrigin.HAND)
    return agent


def remade(data: bytes, **changes: Any) -> bytes:
    """The same archive with entries changed, added, or taken out (`None`)."""
    source = zipfile.ZipFile(io.BytesIO(data))
    entries = {name: source.read(name) for name in source.namelist()} | changes
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            if content is not None:
                archive.writestr(name, content)
    return target.getvalue()


class RoundTripTest(TestCase):
    def test_everything_comes_back_and_the_second_export_is_the_first(self) -> None:
        agent = make_whole_agent()
        data = exported(agent)
        assert exported(agent) == data
        assert _SECRET.encode() not in b"".join(
            zipfile.ZipFile(io.BytesIO(data)).read(n) for n in zipfile.ZipFile(io.BytesIO(data)).namelist()
        )
        empty_site()
        taken = imported(data)
        assert exported(taken.agent) == data
        assert taken.counts == {
            "agent": 1,
            "deployments": 1,
            "synonyms": 1,
            "web_sources": 1,
            "documents": 2,
            "answers": 1,
            "tools": 1,
            "golden": 1,
        }
        assert not Deployment.objects.get().is_active
        assert LearnedResponse.objects.get().phrasings.get().text == "Vos horaires ?"
        assert Document.objects.get(name="a/b.md").category == Category.objects.get()

    def test_nothing_is_overwritten(self) -> None:
        agent = make_whole_agent()
        data = exported(agent)
        ToolOverride.objects.update(description="La nôtre.")
        with pytest.raises(AgentFileError, match="exists"):
            imported(data)
        taken = imported(data, slug="desk-2")
        assert Deployment.objects.get(slug="desk").agent == agent
        assert ToolOverride.objects.get().description == "La nôtre."
        assert len([n for n in taken.notices if "desk" in n or "find_book" in n]) == 2

    def test_tool_of_this_site_gets_words_and_stays_what_all_agents_offer(self) -> None:
        agent = make_whole_agent()
        freed = {"is_active": False, "needs_approval": False, "extra_tags": ["chefs"]}
        ToolOverride.objects.update(**freed)
        data = exported(agent)
        ToolOverride.objects.all().delete()
        ToolOverride.objects.create(tool_name="find_book")
        imported(data, slug="desk-2")
        row = ToolOverride.objects.get()
        assert row.description == "Trouve un livre."
        assert (row.is_active, row.needs_approval, row.extra_tags) == (True, None, [])
        assert not row.agents.exists()

    def test_tool_that_comes_later_asks_whatever_a_file_said(self) -> None:
        agent = make_whole_agent()
        ToolOverride.objects.update(needs_approval=False)
        data = exported(agent)
        empty_site()
        taken = imported(data)
        row = ToolOverride.objects.get()
        assert row.needs_approval is None
        assert list(row.agents.all()) == [taken.agent]

    def test_what_would_hold_for_all_agents_is_said(self) -> None:
        ToolOverride.objects.create(tool_name="of_all", description="Pour tous.")
        make_agent(slug="other")
        data = exported(make_whole_agent())
        ToolOverride.objects.all().delete()
        notices = open_agent_file(io.BytesIO(data)).preview("copy").notices
        assert [each for each in notices if "of_all" in each]
        assert not [each for each in notices if "find_book" in each]

    def test_preview_writes_nothing(self) -> None:
        data = exported(make_whole_agent())
        empty_site()
        assert open_agent_file(io.BytesIO(data)).preview().counts["documents"] == 2
        assert not Agent.objects.exists()
        assert not Category.objects.exists()


_words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=40)


class RoundTripPropertyTest(PropertyTestCase):
    @given(
        prompt=_words,
        count=st.one_of(st.none(), st.integers(1, 20)),
        threshold=st.one_of(st.none(), st.floats(0, 1)),
        documents=st.dictionaries(
            st.from_regex(r"[a-z]{1,8}\.(md|txt)", fullmatch=True), st.binary(min_size=1, max_size=200), max_size=3
        ),
        answers=st.dictionaries(
            st.from_regex(r"[A-Z][a-z]{2,9} [a-z]{2,9} \?", fullmatch=True),
            st.from_regex(r"[A-Z][a-z ]{1,40}\.", fullmatch=True),
            max_size=3,
        ),
    )
    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def test_export_import_export_gives_the_same(
        self, prompt: str, count: Any, threshold: Any, documents: Any, answers: Any
    ) -> None:
        agent = make_agent(system_prompt=prompt, match_count=count, guard_rail_threshold=threshold)
        for name, data in documents.items():
            store_document(agent=agent, name=name, data=data)
        for question, answer in answers.items():
            LearnedResponse.objects.create(agent=agent, question=question, answer=answer, status="obsolete")
        first = exported(agent)
        empty_site()
        assert exported(imported(first).agent) == first


class HostileArchivesTest(TestCase):
    def setUp(self) -> None:
        self.data = exported(make_whole_agent())
        empty_site()

    def test_half_a_character_or_a_nul_is_refused_by_name(self) -> None:
        said = zipfile.ZipFile(io.BytesIO(self.data)).read("agent.json").decode()
        for bad in (r"\ud800", r"\u0000"):
            data = remade(self.data, **{"agent.json": said.replace("En vers", bad).encode()})
            with pytest.raises(AgentFileError, match="agent.json: a text with half a character"):
                imported(data)

    def refuse(self, data: bytes) -> None:
        with pytest.raises(AgentFileError):
            imported(data, slug="x")
        assert not Agent.objects.exists()

    def test_no_archive_at_all(self) -> None:
        for data in (b"", b"PK\x03\x04 no", b"%PDF-1.4", self.data[: len(self.data) // 2]):
            self.refuse(data)

    def test_manifest_that_is_none_of_ours(self) -> None:
        manifest = json.loads(zipfile.ZipFile(io.BytesIO(self.data)).read("manifest.json"))
        changes: list[dict[str, Any]] = [{"format": "x"}, {"version": 2}, {"parts": []}, {"parts": {"agent": 1}}]
        for change in changes:
            self.refuse(remade(self.data, **{"manifest.json": json.dumps(manifest | change)}))
        self.refuse(remade(self.data, **{"manifest.json": None}))
        self.refuse(remade(self.data, **{"manifest.json": "[" * 100_000}))

    def test_parts_of_another_shape(self) -> None:
        for name in ("agent", "deployments", "documents", "answers", "synonyms", "web_sources", "tools"):
            for rows in ("{}", "[1]", '[{"x": 1}]', "no"):
                if (name, rows) != ("agent", '[{"x": 1}]'):
                    self.refuse(remade(self.data, **{f"{name}.json": rows}))

    def test_halves_of_characters_and_rows_that_no_check_can_read(self) -> None:
        for name in ("deployments", "tools"):
            for rows in ('[{"slug": "\\ud800", "tool_name": "\\ud800"}]', '[{"slug": {}}]'):
                self.refuse(remade(self.data, **{f"{name}.json": rows}))
        manifest = json.loads(zipfile.ZipFile(io.BytesIO(self.data)).read("manifest.json"))
        strange = json.dumps({**manifest, "version": "\ud800"})
        self.refuse(remade(self.data, **{"manifest.json": strange}))

    def test_names_that_are_no_text_and_damaged_data(self) -> None:
        named = remade(self.data, **{"é.txt": b"x"})
        self.refuse(named.replace("é.txt".encode(), b"\xff\xff.txt"))
        source, target = zipfile.ZipFile(io.BytesIO(self.data)), io.BytesIO()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as archive:
            for name in source.namelist():
                archive.writestr(name, source.read(name))
        damaged = bytearray(target.getvalue())
        info = zipfile.ZipFile(target).getinfo("manifest.json")
        begin = info.header_offset + 30 + len(info.filename) + 9
        damaged[begin : begin + 20] = b"\xa5" * 20
        self.refuse(bytes(damaged))

    def test_row_of_another_is_not_written(self) -> None:
        other = make_synonym(make_agent(slug="other"), "ABC", "alpha bravo charlie")
        row = {"short": "XYZ", "long": "xylo yak zen", "state": "confirmed"}
        given = [{**row, "id": other.pk, "agent_id": other.agent_id}]
        taken = imported(remade(self.data, **{"synonyms.json": json.dumps(given)}))
        assert taken.agent.synonyms.get().short == "XYZ"
        other.refresh_from_db()
        assert (other.short, other.agent.slug) == ("ABC", "other")

    def test_path_out_of_the_archive(self) -> None:
        rows = [{"name": "../../etc/passwd", "title": "", "enabled": True, "category": "", "file": "files/000001"}]
        given = {"documents.json": json.dumps(rows), "../../evil.txt": b"x"}
        taken = imported(remade(self.data, **given))
        [document] = taken.agent.documents.all()
        assert ".." not in document.file.name
        rows[0]["file"] = "../../../../etc/hostname"
        Agent.objects.all().delete()
        self.refuse(remade(self.data, **{"documents.json": json.dumps(rows)}))

    def test_bombs(self) -> None:
        self.refuse(remade(self.data, **{"files/000001": b"\0" * 300_000_000}))
        with override_settings(AGENT_FILE_MAX_ENTRIES=3):
            self.refuse(self.data)
        with override_settings(AGENT_FILE_MAX_BYTES=100):
            self.refuse(self.data)
        with override_settings(AGENT_FILE_MAX_PART_BYTES=10):
            self.refuse(self.data)
        with override_settings(MAX_DOCUMENT_BYTES=3):
            self.refuse(self.data)

    def test_entry_larger_than_it_declares(self) -> None:
        lying = bytearray(remade(self.data, **{"files/000001": b"a" * 5_000}))
        place = lying.rfind((5_000).to_bytes(4, "little"))
        lying[place : place + 4] = (1).to_bytes(4, "little")
        self.refuse(bytes(lying))


class DoorsTest(TestCase):
    def test_commands(self) -> None:
        make_whole_agent()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "desk.zip"
            call_command("export_agent", "desk", path, stdout=io.StringIO())
            with pytest.raises(CommandError):
                call_command("export_agent", "desk", path)
            with pytest.raises(CommandError, match="desk"):
                call_command("import_agent", path)
            out = io.StringIO()
            call_command("import_agent", path, "--as", "copy", "--dry-run", stdout=out, stderr=out)
            assert "documents: 2" in out.getvalue()
            assert not Agent.objects.filter(slug="copy").exists()
            call_command("import_agent", path, "--as", "copy", stdout=out, stderr=out)
        assert Agent.objects.get(slug="copy").documents.count() == 2

    def test_original_that_is_gone_is_named(self) -> None:
        agent = make_whole_agent()
        document = agent.documents.get(name="c.txt")
        document.file.storage.delete(str(document.file.name))
        page = superuser_client().get(admin_url(Agent, "export", agent.pk), follow=True)
        assert "c.txt" in shown_messages(page)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "desk.zip"
            with pytest.raises(CommandError, match=r"c\.txt"):
                call_command("export_agent", "desk", path)
            assert not path.exists()

    def test_it_asks_for_the_rights_to_all_that_is_in_it(self) -> None:
        agent = make_whole_agent()
        for role, status in (("reader", 403), ("editor", 403), ("agents", 200)):
            client = client_of(in_role(role))
            assert client.get(admin_url(Agent, "export", agent.pk)).status_code == status
            assert client.get(admin_url(Agent, "import")).status_code == status

    def test_pages(self) -> None:
        agent = make_whole_agent()
        client = superuser_client()
        page = client.get(admin_url(Agent, "change", agent.pk)).content.decode()
        assert admin_url(Agent, "export", agent.pk) in page
        answer: Any = client.get(admin_url(Agent, "export", agent.pk))
        data = b"".join(answer.streaming_content)
        assert admin_url(Agent, "import") in client.get(admin_url(Agent, "changelist")).content.decode()
        address = admin_url(Agent, "import")
        taken = client.post(address, {"file": SimpleUploadedFile("a.zip", data)})
        assert "desk" in taken.context["form"].errors["slug"][0]
        shown = client.post(address, {"file": SimpleUploadedFile("a.zip", data), "slug": "copy"})
        assert not Agent.objects.filter(slug="copy").exists()
        token = shown.context["token"]
        assert "Documents" in dict(shown.context["counts"])
        other = client_of(make_user(is_staff=True, is_superuser=True))
        confirm = {"token": token, "slug": "copy", "confirm": "1"}
        assert other.post(address, confirm).status_code == 200
        assert client.post(address, confirm).status_code == 302
        assert Agent.objects.get(slug="copy").documents.count() == 2
        # Once is enough.
        assert client.post(address, confirm | {"slug": "third"}).status_code == 200
        assert not Agent.objects.filter(slug="third").exists()
        assert make_staff_client().get(address).status_code == 403


def make_staff_client() -> Any:
    return client_of(make_staff("agents.add_agent"))
