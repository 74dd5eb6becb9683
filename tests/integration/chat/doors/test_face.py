"""A site's own face, on the page, in the widget and in the admin."""

import base64
import hashlib
import io
import json
import re
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.core.exceptions import ValidationError
from django.core.files.base import ContentFile
from django.test import Client, TestCase
from PIL import Image

from agents.admin.forms import DeploymentForm
from agents.branding import LOGO_SIZE, logo_png
from agents.models import Deployment, Logo
from tests.factories import make_library, make_user

SITE = "https://www.example.org"


def picture(kind: str = "PNG", size: tuple[int, int] = (1_200, 300)) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", size, "#7a1fa2").save(made, kind)
    return made.getvalue()


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
                Client().get(f"/widget/{self.deployment.public_key}/", {"origin": SITE, "lang": language}),
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
        assert page.count('<svg width="280"') == 4
        assert 'data-color="#7a1fa2"' in page

    def test_logo_stands_on_every_page_of_its_deployment(self) -> None:
        staff = Client()
        staff.force_login(make_user(is_staff=True, is_superuser=True))
        address = f"/admin/agents/deployment/{self.deployment.pk}/change/"
        form = DeploymentForm(instance=self.deployment)
        sent = {
            name: value
            for name, value in form.initial.items()
            if value is not None and name in form.fields and not isinstance(value, list)
        }
        inline = {"specialists-TOTAL_FORMS": 0, "specialists-INITIAL_FORMS": 0}
        upload = ContentFile(picture("JPEG"), name="logo.jpg")
        answer = staff.post(address, {**sent, **inline, "logo_file": upload})
        assert answer.status_code == 302, answer.content.decode()

        self.deployment.refresh_from_db()
        assert self.deployment.logo is not None
        url = f"/logos/{self.deployment.logo.pk}.png"
        for page in (
            Client().get(f"/d/{self.deployment.slug}/"),
            Client().get(f"/widget/{self.deployment.public_key}/", {"origin": SITE}),
            staff.get(address),
        ):
            assert url in page.content.decode()
            assert "img-src 'self'" in page["Content-Security-Policy"]
        logo = Client().get(url)
        assert logo["Content-Type"] == "image/png"
        assert "immutable" in logo["Cache-Control"]
        with Image.open(io.BytesIO(logo.content)) as shown:
            assert shown.size == (480, 120)

        staff.post(address, {**sent, **inline, "without_logo": "on"})
        assert not Deployment.objects.filter(pk=self.deployment.pk, logo__isnull=False)
        assert Logo.objects.exists(), "the journal may bring it back"

    def test_what_is_no_picture_is_refused_as_a_logo(self) -> None:
        vector = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
        for data in (vector, b"", picture()[:60], picture("GIF"), picture(size=(9_000, 9_000))):
            with pytest.raises(ValidationError):
                logo_png(ContentFile(data))
        assert Image.open(io.BytesIO(logo_png(ContentFile(picture("WEBP"))))).size <= LOGO_SIZE

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
