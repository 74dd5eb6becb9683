"""The site and the browser of the journeys, a key for programs, the same site served once more with other settings, and
the table of what each program does.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from tests.clients.environments import INSTALLED
from tests.clients.table import HEAD, Rows, row
from tests.e2e.conftest import LiveSite, _served, browser, live_site
from tests.servers.model_server import Body, ModelReply, ModelServer, text_of
from tests.servers.ports import free_port

__all__ = ["SILENT", "ServedAgain", "browser", "live_site"]

ServedAgain = Callable[..., LiveSite]
#: In a question: the model of `troubled_site` never answers it.
SILENT = "Sans fin."
#: A deployment for programs that show the text alone.
WRITTEN = """\
from agents.models import Agent, Deployment
Deployment.objects.create(agent=Agent.objects.get(), slug="written", name="Écrites", config_overlay={"api_source_lines": True})
"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A browser that is not there fails as a program does that cannot be installed: a skip would look as if all worked."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
    return report


@pytest.fixture(scope="session")
def secret(live_site: LiveSite) -> str:
    live_site.manage("shell", "-c", WRITTEN)
    named = ("--deployment", "guide", "--deployment", "written")
    return live_site.manage("issue_api_key", "clients", *named).strip()


@pytest.fixture(scope="session")
def served_again(live_site: LiveSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedAgain]:
    """`served_again(RATE_LIMITS="False")`: the site, on another port, with other variables of its environment."""

    @contextmanager
    def serving(**changed: str) -> Iterator[LiveSite]:
        environment = {**live_site.environment, **changed}
        site = replace(live_site, url=f"http://127.0.0.1:{free_port()}", environment=environment)
        yield from _served(site, tmp_path_factory.mktemp("again") / "serve.log")

    with ExitStack() as stack:
        yield lambda **changed: stack.enter_context(serving(**changed))


@pytest.fixture(scope="session")
def troubled_site(served_again: ServedAgain) -> Iterator[LiveSite]:
    """Its model server refuses every question, or is silent for ever where that is asked for."""

    def trouble(body: Body) -> ModelReply:
        asked = text_of(body["messages"][-1])
        return ModelReply(hang_after=0) if SILENT in asked else ModelReply(status=503)

    with ModelServer(fallback=trouble) as model:
        yield served_again(OPENAI_BASE_URL=model.base_url, LLM_READ_TIMEOUT_SECONDS="2")


@pytest.fixture(scope="session")
def table() -> Iterator[Rows]:
    """By program, what each try printed. The table is written to `table.md` where the programs are installed."""
    rows: Rows = {}
    yield rows
    INSTALLED.mkdir(parents=True, exist_ok=True)
    lines = [*HEAD, *(row(name, found) for name, found in rows.items())]
    (INSTALLED / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
