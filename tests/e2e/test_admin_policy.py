"""The admin under its content policy, in a real browser: `admin_page` fails on a script error or a breach of the
policy.
"""

from urllib.parse import urljoin

from playwright.sync_api import Page, expect

from tests.e2e.conftest import LiveSite


def test_every_page_of_the_menu_keeps_to_the_policy(admin_page: Page, live_site: LiveSite) -> None:
    admin_page.goto(f"{live_site.url}/admin/advanced/")
    links = admin_page.locator("a[href*='/admin/']").evaluate_all(
        "found => [...new Set(found.map(each => each.pathname))]"
    )
    lists = [link for link in links if "logout" not in link]
    for address in lists:
        admin_page.goto(urljoin(live_site.url, address))
        tabs = admin_page.locator("#tabs-items a").evaluate_all("found => found.map(each => each.pathname)")
        lists += [tab for tab in dict.fromkeys(tabs) if tab not in lists]
        expect(admin_page.locator("#main, #content").first).to_be_visible()
        add = admin_page.locator("a[href$='/add/']").first
        if add.count():
            admin_page.goto(urljoin(admin_page.url, str(add.get_attribute("href")).split("?")[0]))
            expect(admin_page.locator("form").first).to_be_attached()
    assert len(lists) > 25
    admin_page.goto(f"{live_site.url}/admin/agents/agent/")
    admin_page.locator("th a, td a").filter(has_text="Guide").first.click()
    # The theme's templates are scripts of their own kind: where they do not run, nothing of `x-show` is hidden.
    expect(admin_page.locator("[x-show]").first).to_be_attached()
    assert admin_page.locator("[x-show]").filter(visible=False).count() > 0
