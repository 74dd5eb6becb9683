"""The routing table of HTTP."""

from django.contrib import admin
from django.contrib.auth import views as auth_views
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

from chat.access.sign_in import limited_password_change, limited_sign_in
from config import admin_theme, health

#: A database in trouble is answered by its name, wherever it was met.
handler500 = "chat.doors.unavailable.failed"
urlpatterns = [
    path("admin/login/", limited_sign_in(admin.site.login)),
    path(
        "admin/password_change/",
        limited_password_change(admin.site.admin_view(admin.site.password_change, cacheable=True)),
    ),
    path("admin/advanced/", admin.site.admin_view(admin_theme.advanced), name="admin-advanced"),
    path("admin/", admin.site.urls),
    path(
        "login/", limited_sign_in(auth_views.LoginView.as_view(next_page="chat-home")), name="login"
    ),
    path("logout/", auth_views.LogoutView.as_view(), name="logout"),
    path("i18n/", include("django.conf.urls.i18n")),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("", include("chat.doors.urls")),
]
