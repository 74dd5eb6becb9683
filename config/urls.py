"""The routing table of HTTP."""

from django.contrib import admin
from django.contrib.auth import views as auth_views
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

from chat.access.rate_limits import limited_password_change, limited_sign_in
from config import first_agent, health, home
from config.version import VERSION

#: A form that is too long, an address that is not there and a database in trouble are answered by their names, wherever
#: they were met.
handler400 = "chat.page.views.refused"
handler404 = "chat.page.views.unknown"
handler500 = "chat.page.views.failed"
admin.autodiscover()
urlpatterns = [
    path("admin/login/", limited_sign_in(admin.site.login)),
    path(
        "admin/password_change/",
        limited_password_change(admin.site.admin_view(admin.site.password_change, cacheable=True)),
    ),
    path("admin/advanced/", admin.site.admin_view(home.advanced), name="admin-advanced"),
    path("admin/first-agent/", admin.site.admin_view(first_agent.first_agent), name="admin-first-agent"),
    path("admin/", admin.site.urls),
    path("login/", limited_sign_in(auth_views.LoginView.as_view(next_page="chat-home")), name="login"),
    path("logout/", auth_views.LogoutView.as_view(), name="logout"),
    path("i18n/", include("django.conf.urls.i18n")),
    # Its version is this site's, not one that a caller names: that would go into a header.
    path("api/schema/", SpectacularAPIView.as_view(api_version=VERSION), name="schema"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("", include("chat.urls")),
]
