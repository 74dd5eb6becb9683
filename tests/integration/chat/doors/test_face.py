"""A site's own face, on the page, in the widget and in the admin."""

import base64
import hashlib
import json
import re
from pathlib import Path

from django.contrib.staticfiles import finders
from django.test import Client, TestCase

from agents.models import Deployment
from tests.factories import make_library, make_user

SITE = "https://www.example.org"


class FaceTests(TestCase):
    deployment: Deployment

    @classmethod
    def setUpTestData(cls) -> None:
        cls.deployment = make_library(
            name="Bibliothèque",
            name_en="Library",
            welcome="Bienvenue.",
            welcome_en="Welcome.",
            organisation="la Ville de Lyon",
            accent="#7a1fa2",
            notice="Vos questions sont gardées un an.",
            notice_en="Your questions are kept for a year.",
            legal_url="https://www.example.org/legal",
            allowed_origins=SITE,
        )

    def test_page_and_widget_wear_it_in_the_language_of_the_reader(self) -> None:
        for language, words in (
            ("fr", ("Bibliothèque", "Bienvenue.", "gardées un an", "la Ville de Lyon")),
            ("en", ("Library", "Welcome.", "kept for a year", "la Ville de Lyon")),
        ):
            for page in (
                Client(headers={"Accept-Language": language}).get(f"/d/{self.deployment.slug}/"),
                Client().get(
                    f"/widget/{self.deployment.public_key}/", {"origin": SITE, "lang": language}
                ),
            ):
                shown = page.content.decode()
                for word in (*words, 'href="https://www.example.org/legal"'):
                    assert word in shown, (language, word)
                style = re.search(r"<style>(.*?)</style>", shown)
                assert style is not None
                digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
                assert f"style-src 'self' 'sha256-{digest}';" in page["Content-Security-Policy"]

    def test_without_a_face_nothing_is_added(self) -> None:
        plain = make_library(name="Nue")
        page = Client().get(f"/d/{plain.slug}/")
        assert b"<style>" not in page.content
        assert "style-src 'self';" in page["Content-Security-Policy"]

    def test_staff_see_a_preview_and_the_tag_with_the_colour(self) -> None:
        staff = Client()
        staff.force_login(make_user(is_staff=True, is_superuser=True))
        page = staff.get(f"/admin/agents/deployment/{self.deployment.pk}/change/").content.decode()
        assert page.count('<svg width="280"') == 2
        assert 'data-color="#7a1fa2"' in page

    def test_page_can_be_installed(self) -> None:
        page = Client().get(f"/d/{self.deployment.slug}/")
        found = re.search(r'rel="manifest" href="/static/(.*?)"', page.content.decode())
        assert found is not None
        assert "manifest-src 'self'" in page["Content-Security-Policy"]
        file = Path(str(finders.find("chat/manifest.webmanifest")))
        manifest = json.loads(file.read_text(encoding="utf-8"))
        assert (manifest["start_url"], manifest["display"]) == ("/", "standalone")
        for icon in manifest["icons"]:
            assert (file.parent / icon["src"]).exists()
