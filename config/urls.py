"""The routing table of HTTP."""

from allauth.account import views as account
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.urls import include, path, re_path, reverse_lazy
from django.views.decorators.http import require_POST
from django.views.generic import RedirectView, TemplateView
from drf_spectacular.views import SpectacularAPIView

from chat.access.sign_in import admin_sign_in
from config import first_agent, health, home
from config.version import VERSION

#: Forms that are too long, unknown addresses and a database in trouble are answered by their names, wherever met.
handler400 = "chat.page.views.refused"
handler404 = "chat.page.views.unknown"
handler500 = "chat.page.views.failed"
admin.autodiscover()
#: Where an account without a password of this site would change it.
no_password = login_required(TemplateView.as_view(template_name="account/no_password.html"))
sign_out = require_POST(account.logout)
urlpatterns = [
    path("admin/login/", admin_sign_in),
    path("admin/logout/", sign_out),
    path("admin/password_change/", RedirectView.as_view(pattern_name="account_change_password")),
    path("admin/advanced/", admin.site.admin_view(home.advanced), name="admin-advanced"),
    path("admin/agents/deployment/begin/", admin.site.admin_view(first_agent.first_agent), name="admin-first-agent"),
    path("admin/work-mail/", admin.site.admin_view(home.choose_mail), name="admin-work-mail"),
    path("admin/auth/user/", include("chat.staff.admin.account_files")),
    path("admin/", admin.site.urls),
    path("login/", account.login, name="account_login"),
    path("login/again/", account.reauthenticate, name="account_reauthenticate"),
    path("login/inactive/", account.account_inactive, name="account_inactive"),
    path("logout/", sign_out, name="account_logout"),
    path("password/", account.password_change, name="account_change_password"),
    path("password/none/", no_password, name="account_set_password"),
    path("2fa/", include("allauth.mfa.urls")),
    path("i18n/", include("django.conf.urls.i18n")),
    # Its version is this site's, not one that a caller names: that would go into a header.
    path("api/schema/", SpectacularAPIView.as_view(api_version=VERSION), name="schema"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("", include("chat.urls")),
]
if settings.HAS_MAIL:
    new_password = account.PasswordResetFromKeyView.as_view(success_url=reverse_lazy("account_login"))
    urlpatterns += [
        path("password/new/", account.password_reset, name="account_reset_password"),
        path("password/new/sent/", account.password_reset_done, name="account_reset_password_done"),
        re_path(r"^password/new/(?P<uidb36>\w+)-(?P<key>.+)/$", new_password, name="account_reset_password_from_key"),
    ]
if settings.OIDC_SERVER_URL:
    # Its libraries take 15 MB of a process.
    from chat.access import provider

    urlpatterns += [
        path("login/organisation/", provider.begin, name="provider-sign-in"),
        path("login/organisation/back/", provider.end, name="provider-back"),
    ]
