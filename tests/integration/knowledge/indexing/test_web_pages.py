"""Pages and sitemaps of the web as documents: fetched from a real server on loopback, refreshed, gone and back."""

import errno
import gzip
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.core.files.storage import FileSystemStorage
from django.core.management import CommandError, call_command
from django.test import TestCase, override_settings
from django.utils import timezone

from agents.admin_base import admin_url
from agents.jobs import recover
from agents.models import Agent, JobKind, JobStatus
from knowledge.errors import KnowledgeError, PageRefusedError, PageUnavailableError
from knowledge.indexing.jobs import enqueue_due_refreshes, enqueue_refresh, run_build
from knowledge.indexing.refresh import add_source, next_reading
from knowledge.models import DocumentStatus, IndexBuild, PageState, SourceKind, WebPage, WebSource
from knowledge.search import confirm_passages
from knowledge.web import Fetched, fetch_page
from tests.admin_pages import superuser_client
from tests.constants import override
from tests.factories import fresh, make_agent, search_index
from tests.servers.web_site import Answer, Site, web_site
from tests.terminal import run

PAGE = """<html lang="fr"><head><title>{title}</title></head><body><nav>Accueil Contact</nav><main>
<h1>{title}</h1><h2>Combien coûte {title} ?</h2><p>Cela coûte {price} euros par an.</p></main></body></html>"""


def page(title: str, price: int = 12, **options: Any) -> Answer:
    return Answer(PAGE.format(title=title, price=price), **options)


def sitemap(site: Site, *paths: str, root: str = "urlset", entry: str = "url") -> Answer:
    rows = "".join(f"<{entry}><loc>{site.url(path)}</loc></{entry}>" for path in paths)
    xml = f'<?xml version="1.0"?><{root} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</{root}>'
    return Answer(xml, kind="application/xml")


@contextmanager
def site_of(**pages: Answer) -> Iterator[Site]:
    with web_site({f"/{name}": answer for name, answer in pages.items()}) as site:
        with override(URL_INTERNAL_HOSTS=[site.host], URL_HOST_PAUSE_SECONDS=0.0):
            yield site


def refresh(source: WebSource) -> IndexBuild:
    build = enqueue_refresh(source)
    run_build(build.pk)
    build.refresh_from_db()
    source.refresh_from_db()
    return build


def found(agent: Agent, question: str) -> list[Any]:
    return confirm_passages(search_index(agent, question), agent_id=agent.pk).passages(5)


class PageTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()

    @contextmanager
    def followed(self, answer: Answer | None = None, **settings: Any) -> Iterator[tuple[Site, WebSource]]:
        """A site of one page, which was read once."""
        self.agent.settings.update(settings)
        self.agent.save()
        with site_of(a=answer or page("la carte")) as site:
            source = add_source(agent=self.agent, address=site.url("/a#haut"))
            refresh(source)
            yield site, source

    def answers(self) -> list[str]:
        return [passage.content for passage in found(self.agent, "Combien coûte la carte ?")]

    def test_page_becomes_a_document_whose_passages_lead_back_to_it(self) -> None:
        with self.followed() as (site, source):
            document = self.agent.documents.get()
            assert IndexBuild.objects.get(kind=JobKind.REFRESH).status == JobStatus.DONE
            assert document.url == document.name == site.url("/a")
            assert (document.title, document.source_type) == ("la carte", "html")
            assert (document.status, document.page.state) == (DocumentStatus.INDEXED, PageState.PRESENT)
            assert found(self.agent, "Combien coûte la carte ?")[0].url == site.url("/a")

    def test_page_that_says_the_same_costs_a_conditional_request_and_no_embedding(self) -> None:
        with self.followed(page("la carte", etag='"1"')) as (site, source):
            first = site.asked[-1][1]
            same = refresh(source).report
            asked = site.asked[-1][1]
            site.pages["/a"] = page("la carte")
            site.pages["/a"].body += "<script>var token = 42</script>"  # type: ignore[operator]
            other_bytes = refresh(source).report
        assert ("if-none-match" in first, asked["if-none-match"]) == (False, '"1"')
        assert (same["pages"], same["unchanged"]) == (1, 1)
        assert same["embedded"] == same["model_calls"] == same["documents"] == 0
        assert (other_bytes["documents"], other_bytes["embedded"]) == (1, 0)

    def test_changed_page_is_answered_from_as_it_is_now(self) -> None:
        with self.followed(page("la carte", 12)) as (site, source):
            site.pages["/a"] = page("la carte", 15)
            refresh(source)
        assert "15 euros" in self.answers()[0]

    def test_page_that_is_gone_is_disabled_and_comes_back(self) -> None:
        with self.followed() as (site, source):
            kept = site.pages.pop("/a")
            refresh(source)
            assert self.answers(), "a site that is being put in place says so once"
            refresh(source)
            document = self.agent.documents.get()
            assert (document.page.state, document.enabled) == (PageState.GONE, False)
            assert self.answers() == []
            site.pages["/a"] = kept
            refresh(source)
        document = self.agent.documents.get()
        assert (document.page.state, document.enabled) == (PageState.PRESENT, True)
        assert self.answers()

    def test_staff_who_enable_a_gone_page_are_not_overruled(self) -> None:
        with self.followed() as (site, source):
            site.pages.clear()
            refresh(source)
            refresh(source)
            document = self.agent.documents.get()
            assert not document.enabled
            document.enabled = True
            document.save()
            refresh(source)
        assert self.agent.documents.get().enabled

    def test_page_whose_server_fails_keeps_what_it_said_and_says_why(self) -> None:
        with self.followed() as (site, source):
            site.pages["/a"] = Answer("down", status=503)
            with pytest.raises(PageUnavailableError):
                run_build(enqueue_refresh(source).pk)
            source.refresh_from_db()
            assert "503" in source.error
            due = next_reading(source)
            assert due is not None
            assert due > timezone.now()
            assert self.agent.documents.get().page.state == PageState.FAILED
            assert self.answers()

    def run_again(self, build: IndexBuild) -> None:
        IndexBuild.objects.update(not_before=timezone.now() - timedelta(seconds=1))
        run_build(build.pk, may_retry=True)
        assert (fresh(build).status, build.attempts) == (JobStatus.DONE, 2)
        assert self.agent.documents.get().status == DocumentStatus.INDEXED

    def test_server_that_fails_and_a_full_disk_are_tried_again_by_the_worker(self) -> None:
        with site_of(a=Answer("down", status=503)) as site:
            build = enqueue_refresh(add_source(agent=self.agent, address=site.url("/a")))
            run_build(build.pk, may_retry=True)
            site.pages["/a"] = page("la carte")
            self.run_again(build)
        self.agent = make_agent()
        with site_of(a=page("la carte")) as site:
            build = enqueue_refresh(add_source(agent=self.agent, address=site.url("/a")))
            full = OSError(errno.ENOSPC, "No space left on device")
            with mock.patch.object(FileSystemStorage, "save", side_effect=full):
                run_build(build.pk, may_retry=True)
            assert fresh(build).status == JobStatus.QUEUED
            assert "Le disque est plein" in build.error
            self.run_again(build)

    def test_what_cannot_be_read_is_a_failed_document_with_its_reason(self) -> None:
        with site_of(film=Answer(b"\0\1", kind="video/mp4")) as site:
            refresh(add_source(agent=self.agent, address=site.url("/film")))
        document = self.agent.documents.get()
        assert document.status == DocumentStatus.FAILED
        assert "video/mp4" in document.error

    def test_formats_follow_the_server_and_the_encoding_it_names(self) -> None:
        latin = "<html><head><meta charset='utf-8'><title>Été</title></head><body><p>Déjà l’été.</p></body></html>"
        texts = {
            "/note": Answer("# Titre\n\nUn texte.", kind="text/markdown"),
            "/raw.md": Answer("# Autre\n\nUn texte.", kind="text/plain"),
            "/latin": Answer(latin.encode("cp1252"), kind="text/html; charset=windows-1252"),
        }
        with site_of(**{path.removeprefix("/"): answer for path, answer in texts.items()}) as site:
            for path in texts:
                refresh(add_source(agent=self.agent, address=site.url(path)))
        titles = list(self.agent.documents.order_by("title").values_list("title", "source_type"))
        assert titles == [("Autre", "markdown"), ("Titre", "markdown"), ("Été", "html")]

    def test_same_address_is_one_source_however_it_is_written(self) -> None:
        first = add_source(agent=self.agent, address="http://Example.org:80/a#b")
        second = add_source(agent=self.agent, address="http://example.org/a")
        assert first == second
        assert add_source(agent=self.agent, address="HTTP://EXAMPLE.org").url == "http://example.org/"


class GuardTests(TestCase):
    """What a fetch never does; the guard itself has its tests in `tests/integration/agents/test_network.py`."""

    def test_internal_address_is_refused_at_the_first_hop_and_at_each_redirect(self) -> None:
        with pytest.raises(PageRefusedError, match="adresse interne"):
            fetch_page("http://127.0.0.1/")
        for target in ("http://169.254.169.254/latest/", "http://localhost:1/", "//[::1]/"):
            away = Answer(status=302, headers={"Location": target})
            with site_of(a=away) as site, pytest.raises(PageRefusedError):
                fetch_page(site.url("/a"))

    def test_other_schemes_and_ports_are_refused_also_as_redirects(self) -> None:
        with override(URL_HOST_PAUSE_SECONDS=0.0):
            for target in (
                *("file:///etc/passwd", "ftp://a.example/", "http://u:p@a.example/"),
                *("http://\xe9\xff.example/", "/a\x01b"),
            ):
                away = Answer(status=301, headers={"Location": target})
                with site_of(a=away) as site, pytest.raises(PageRefusedError):
                    fetch_page(site.url("/a"))
            with pytest.raises(PageRefusedError, match="port 22 "):
                fetch_page("http://a.example:22/")

    def test_redirects_are_followed_and_bounded(self) -> None:
        hops = {str(n): Answer(status=302, headers={"Location": f"/{n + 1}"}) for n in range(9)}
        with site_of(**hops, **{"9": page("la carte")}) as site:
            reached = fetch_page(site.url("/5"))
            assert isinstance(reached, Fetched)
            assert reached.address == site.url("/9")
            with pytest.raises(PageRefusedError, match="more than 5 times"):
                fetch_page(site.url("/0"))

    @override_settings(MAX_DOCUMENT_BYTES=20_000)
    def test_size_is_bounded_while_it_streams_and_after_unpacking(self) -> None:
        packed = Answer(gzip.compress(b"a" * 90_000), headers={"Content-Encoding": "gzip"})
        with site_of(long=Answer(b"a" * 20_001), packed=packed) as site:
            for path in ("/long", "/packed"):
                with pytest.raises(PageRefusedError, match="longer than 20000"):
                    fetch_page(site.url(path))

    @override(URL_TOTAL_SECONDS=0.5, URL_TIMEOUT_SECONDS=5.0)
    def test_server_that_drips_is_given_up_after_the_whole_time(self) -> None:
        with site_of(a=Answer(b"a" * 100, drip=0.1)) as site:
            with pytest.raises(PageUnavailableError, match=r"more than 0\.5 s"):
                fetch_page(site.url("/a"))

    def test_requests_to_one_host_are_spaced_and_say_who_asks(self) -> None:
        with site_of(a=page("la carte")) as site:
            with (
                override(URL_HOST_PAUSE_SECONDS=2.0, URL_USER_AGENT="Desk/2"),
                mock.patch("knowledge.web.time") as clock,
            ):
                clock.monotonic.return_value = 1_000.0
                for _time in range(3):
                    fetch_page(site.url("/a"))
        assert [call.args for call in clock.sleep.call_args_list] == [(0.0,), (2.0,), (4.0,)]
        assert site.asked[0][1]["user-agent"] == "Desk/2"


class SitemapTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()

    @contextmanager
    def site(self, *names: str) -> Iterator[tuple[Site, WebSource]]:
        pages = {name: page(f"la fiche {name}", ord(name[0])) for name in names}
        with site_of(**pages) as site:
            site.pages["/sitemap.xml"] = sitemap(site, *(f"/{name}" for name in names))
            yield site, add_source(agent=self.agent, address=site.url("/sitemap.xml"))

    def states(self) -> dict[str, tuple[str, bool]]:
        pages = WebPage.objects.select_related("document").order_by("document__name")
        return {row.document.name[-1]: (row.state, row.document.enabled) for row in pages}

    def test_new_pages_come_and_pages_that_left_are_disabled_and_can_return(self) -> None:
        with self.site("a", "b") as (site, source):
            refresh(source)
            site.pages["/c"] = page("la fiche c")
            site.pages["/sitemap.xml"] = sitemap(site, "/a", "/c")
            refresh(source)
            assert self.states() == {"a": ("present", True), "b": ("left", False), "c": ("present", True)}
            assert not any("fiche b" in p.title for p in found(self.agent, "Combien coûte la fiche b ?"))
            site.pages["/sitemap.xml"] = sitemap(site, "/a", "/b", "/c")
            refresh(source)
        assert set(self.states().values()) == {("present", True)}

    def test_broken_sitemap_changes_nothing(self) -> None:
        for broken in (Answer("<urlset>", kind="text/xml"), Answer("<urlset/>"), Answer("", status=500)):
            with self.subTest(broken.body), self.site("a") as (site, source):
                refresh(source)
                site.pages["/sitemap.xml"] = broken
                with pytest.raises(KnowledgeError):
                    run_build(enqueue_refresh(source).pk)
                assert set(self.states().values()) == {("present", True)}
                assert fresh(source).error

    def test_one_page_that_fails_stops_no_other(self) -> None:
        with self.site("a", "b", "c") as (site, source):
            site.pages["/b"] = Answer("x", status=500)
            build = refresh(source)
        assert build.status == JobStatus.PARTLY_FAILED
        assert [row["item"][-1] for row in build.report["failed"]] == ["b"]
        assert self.states()["c"] == ("present", True)
        assert self.agent.documents.get(name__endswith="/b").status == DocumentStatus.FAILED

    def test_index_of_sitemaps_is_read_packed_or_not(self) -> None:
        with self.site("a", "b") as (site, source):
            packed = sitemap(site, "/b")
            packed.body = gzip.compress(packed.body.encode())  # type: ignore[union-attr]
            site.pages |= {"/1.xml": sitemap(site, "/a"), "/2.xml.gz": packed}
            site.pages["/sitemap.xml"] = sitemap(site, "/1.xml", "/2.xml.gz", root="sitemapindex", entry="sitemap")
            refresh(source)
            assert sorted(self.states()) == ["a", "b"]
            del site.pages["/2.xml.gz"]
            refresh(source)  # half a list drops nothing
        assert self.states()["b"] == ("present", True)

    def test_sitemap_is_known_by_what_it_holds(self) -> None:
        with self.site("a") as (site, _source):
            site.pages["/plan"] = sitemap(site, "/a")
            WebSource.objects.all().delete()
            source = add_source(agent=self.agent, address=site.url("/plan"))
            assert source.kind == SourceKind.PAGE
            refresh(source)
        assert source.kind == SourceKind.SITEMAP
        assert list(self.states()) == ["a"]

    def test_foreign_hosts_and_entities_are_not_followed(self) -> None:
        with self.site("a") as (site, source):
            listed = f"<url><loc>{site.url('/a')}</loc></url><url><loc>http://10.0.0.1/x</loc></url>"
            site.pages["/sitemap.xml"].body = f"<urlset>{listed}</urlset>"
            report = refresh(source).report
            assert report["pages"] == 1
            bomb = '<!DOCTYPE u [<!ENTITY x SYSTEM "file:///etc/passwd">]><urlset><url><loc>&x;</loc></url></urlset>'
            site.pages["/sitemap.xml"].body = bomb
            with pytest.raises(PageRefusedError):
                run_build(enqueue_refresh(source).pk)

    @override_settings(SITEMAP_MAX_PAGES=2)
    def test_number_of_pages_is_bounded_and_said_and_drops_nothing_known(self) -> None:
        with self.site("a", "b", "c") as (site, source):
            report = refresh(source).report
            assert sorted(self.states()) == ["a", "b"]
            assert any("2 au plus" in row["reason"] for row in report["skipped"])
            site.pages["/sitemap.xml"] = sitemap(site, "/c", "/b", "/a")
            refresh(source)
        assert sorted(self.states()) == ["a", "b"]

    def test_robots_txt_is_obeyed_forbids_nothing_when_refused_and_waits_when_it_fails(self) -> None:
        with self.site("a", "b") as (site, source):
            site.pages["/robots.txt"] = Answer("User-agent: *\nDisallow: /b", kind="text/plain")
            refresh(source)
            assert list(self.states()) == ["a"]
            site.pages["/robots.txt"] = Answer("no", status=403)
            refresh(source)
            assert list(self.states()) == ["a", "b"]
            site.pages["/robots.txt"] = Answer("down", status=503)
            with pytest.raises(PageUnavailableError):
                run_build(enqueue_refresh(source).pk)

    def test_run_that_was_killed_goes_on_with_the_pages_that_were_left(self) -> None:
        with self.site("a", "b", "c") as (site, source):
            build = enqueue_refresh(source)
            calls: list[str] = []
            real = fetch_page

            def dying(address: str, **marks: str) -> Any:
                if address.endswith("/c"):
                    raise SystemExit  # no handler of ours stands in the way of a kill
                calls.append(address)
                return real(address, **marks)

            with mock.patch("knowledge.indexing.refresh.fetch_page", dying), pytest.raises(SystemExit):
                run_build(build.pk)
            assert self.agent.documents.filter(status=DocumentStatus.PENDING).count() == 3
            IndexBuild.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
            site.asked.clear()
            recover()
            run_build(build.pk)
        assert [path for path in site.paths() if path in ("/a", "/b", "/c")] == ["/c"]
        assert self.agent.documents.filter(status=DocumentStatus.INDEXED).count() == 3


class ScheduleTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.source = add_source(agent=self.agent, address="http://example.org/a")

    def test_two_workers_queue_one_refresh_and_none_of_a_source_that_is_not_followed(self) -> None:
        WebSource.objects.update(is_active=False)
        assert enqueue_due_refreshes() == 0
        WebSource.objects.update(is_active=True)
        with mock.patch("agents.jobs.nudge"):
            assert enqueue_due_refreshes() == 1
            assert enqueue_due_refreshes() == 0
            assert enqueue_refresh(self.source) == enqueue_refresh(self.source)
        assert IndexBuild.objects.count() == 1

    def test_interval_is_the_source_s_own_else_the_agent_s_else_the_site_s(self) -> None:
        def due_in() -> float | None:
            self.source = WebSource.objects.select_related("agent").get()
            self.source.checked_at = timezone.now()
            due = next_reading(self.source)
            return None if due is None else (due - self.source.checked_at) / timedelta(hours=1)

        assert due_in() == 24
        self.agent.settings["page_refresh_hours"] = 6
        self.agent.save()
        assert due_in() == 6
        WebSource.objects.update(refresh_hours=1)
        assert due_in() == 1
        WebSource.objects.update(refresh_hours=0)
        assert due_in() is None


class CommandTests(TestCase):
    def test_add_documents_takes_addresses_and_reads_them_again(self) -> None:
        agent = make_agent(slug="desk")
        with site_of(a=page("la carte", etag='"1"')) as site:
            added = run("add_documents", "desk", site.url("/a"))
            again = run("add_documents", "desk", site.url("/a"))
        assert (added["documents"], added["pages"]) == (1, 1)
        assert added["embedded"] > 0
        assert (again["pages"], again["unchanged"], again["embedded"]) == (1, 1, 0)
        assert agent.documents.get().status == DocumentStatus.INDEXED

    def test_address_that_cannot_be_read_is_told_with_its_reason(self) -> None:
        make_agent(slug="desk")
        out = io.StringIO()
        with pytest.raises(CommandError):
            call_command("add_documents", "desk", "http://127.0.0.1:9/", "--json", stdout=out)
        (failed,) = json.loads(out.getvalue())["failed"]
        assert failed["item"] == "http://127.0.0.1:9/"
        assert "pas permis" in failed["reason"]


class AdminTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.client = superuser_client()

    def add(self, url: str) -> Any:
        fields = {"agent": self.agent.pk, "url": url, "is_active": "on"}
        return self.client.post(admin_url(WebSource, "add"), fields)

    def test_address_that_staff_add_is_normalised_known_and_queued(self) -> None:
        with mock.patch("agents.jobs.nudge"):
            assert self.add("HTTPS://Example.org/sitemap.xml").status_code == 302
        source = WebSource.objects.get()
        assert (source.url, source.kind) == ("https://example.org/sitemap.xml", "sitemap")
        IndexBuild.objects.get(kind=JobKind.REFRESH).delete()
        with mock.patch("agents.jobs.nudge"):
            self.client.post(
                admin_url(WebSource, "changelist"), {"action": "read_again", "_selected_action": [source.pk]}
            )
        assert IndexBuild.objects.get(kind=JobKind.REFRESH).status == JobStatus.QUEUED

    def test_what_is_no_address_of_the_web_is_refused_by_the_form(self) -> None:
        for url in ("ftp://a.example/", "https://u:p@a.example/", "a.example"):
            response = self.add(url)
            assert response.status_code == 200
            assert "url" in response.context["adminform"].form.errors
        assert not WebSource.objects.exists()
