"""Accounts as CSV, below their list: exported, or uploaded, looked at and saved. No password is in such a file.

Each row goes through the account's own form, as by hand. A row changes nothing of a superuser's account, nor of the
reader's own. The preview's page carries the file's text.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Q
from django.db.models.functions import Lower
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from agents.admin_base import admin_page, admin_url
from agents.database import short_write
from faqs.answers import AnswerRejectedError
from faqs.csv import CsvFileField, Failure, csv_file, csv_line, named_cells
from knowledge.language.words import fold
from knowledge.question_tables import question_rows

#: A file that one request reads, compares and writes, each row by a form of its own.
MAX_BYTES = 256 * 1024
MAX_ROWS = 500
#: By field, what its column is called, in letters alone; files that are exported have the first name.
_COLUMNS = {
    "username": "username login identifiant utilisateur nomdutilisateur",
    "email": "email mail courriel adresse emailaddress adresseelectronique",
    "first_name": "firstname givenname prenom",
    "last_name": "lastname surname familyname name nom nomdefamille",
    "groups": "groups group groupes groupe",
    "is_active": "active isactive actif",
}
_YES, _NO = "yes oui true vrai 1 o y x".split(), "no non false faux 0 n".split()
#: The pages of accounts, whose forms and verbs these are.
_PAGES: Any = admin.site.get_model_admin(User)


class FileForm(forms.Form):
    file = CsvFileField(MAX_BYTES)


@require_safe
def export_accounts(request: HttpRequest) -> HttpResponse:
    if not _PAGES.has_view_permission(request):
        raise PermissionDenied
    rows = [tuple(names.split()[0] for names in _COLUMNS.values())]
    for user in _PAGES.get_queryset(request).order_by("username").prefetch_related("groups"):
        groups = "\n".join(sorted(group.name for group in user.groups.all()))
        active = (_YES if user.is_active else _NO)[0]
        rows.append((user.username, user.email, user.first_name, user.last_name, groups, active))
    return csv_file(map(csv_line, rows), "accounts.csv")


@require_http_methods(["GET", "POST"])
def import_accounts(request: HttpRequest) -> HttpResponse:
    """Read a file and show what it would do; once confirmed, do it, invite the new accounts, and say what became of it."""
    if not (_PAGES.has_add_permission(request) and _PAGES.has_change_permission(request)):
        raise PermissionDenied
    form, text = FileForm(request.POST or None, request.FILES or None), request.POST.get("text", "")
    context = {"title": gettext("Importer des comptes"), "form": form, "media": form.media, "has_agents": True}
    template, context["rows"], context["size"] = "import", MAX_ROWS, MAX_BYTES
    if request.method == "POST" and (text or form.is_valid()):
        try:
            with short_write():
                plan = _plan(request, text or form.cleaned_data["file"])
                new = [user for _line, each in plan["changing"] if text and (user := _save(request, each))]
        except AnswerRejectedError as error:
            form.add_error("file", str(error.public_message))
        else:
            if text:
                _invite(request, plan, new)
                return HttpResponseRedirect(admin_url(User, "changelist"))
            template, context = "preview", {**context, **plan, "text": form.cleaned_data["file"]}
    return admin_page(request, f"admin/auth/user/{template}.html", model=User, **context)


def _columns_of(header: Sequence[str]) -> dict[str, int]:
    known = {word: column for column, words in _COLUMNS.items() for word in words.split()}
    names = [known.get(re.sub("[^a-z]", "", fold(cell)), "") for cell in header]
    return {name: names.index(name) for name in _COLUMNS if name in names} if {"username", "email"} & {*names} else {}


def _plan(request: HttpRequest, text: str) -> dict[str, Any]:
    """What a file would do; `changing`: line and valid form of each account, held to the end of the transaction."""
    if (found := question_rows(text, _columns_of)) is None:
        raise AnswerRejectedError(gettext("Ce fichier CSV n’a ni colonne « e-mail », ni colonne « identifiant »."))
    rows, failed = named_cells(found, MAX_ROWS)
    empty = {"username": "", "email": ""}
    rows = [(line, empty | {name: cell.strip() for name, cell in cells.items()}) for line, cells in rows]
    wanted = Q(username__in={cells["username"] for _line, cells in rows})
    wanted |= Q(address__in={cells["email"].lower() for _line, cells in rows} - {""})
    users = User.objects.annotate(address=Lower("email")).filter(wanted).order_by("pk").select_for_update()
    known, groups = list(users.prefetch_related("groups")), set(Group.objects.values_list("name", flat=True))
    fields = [column for column in found[1] if column != "username"]
    new = _PAGES.get_form(request, None, fields=["username", *fields])
    old = _PAGES.get_form(request, request.user, change=True, fields=fields)
    changing, unchanged, lines = [], 0, dict[User | str, int]()
    for line, cells in rows:
        name, email = cells["username"] or cells["email"], cells["email"].lower()
        same = [each for each in known if (each.username == name if cells["username"] else each.email.lower() == email)]
        user = same[0] if same else None
        try:
            if not name or len(same) > 1:
                raise ValidationError(gettext("Il faut un identifiant : l’adresse manque, ou plusieurs comptes l’ont."))
            if (first := lines.setdefault(user or name, line)) != line:
                raise ValidationError(gettext("Même compte qu’à la ligne %(line)d.") % {"line": first})
            form = (old if user else new)(_form_data(cells, user, groups), instance=user)
            if "groups" in form.fields:
                form.fields["groups"].to_field_name = "name"
            if not form.is_valid():
                raise ValidationError([f"{form[at].label} : {' '.join(said)}" for at, said in form.errors.items()])
            if user and form.changed_data and (user.is_superuser or user == request.user):
                raise ValidationError(gettext("Votre compte et ceux des super-utilisateurs se changent à la main."))
        except ValidationError as error:
            failed.append(Failure(line, name, " ".join(error.messages)))
        else:
            changing += [(line, form)] if form.changed_data else []
            unchanged += not form.changed_data
    failed.sort(key=lambda each: each.line)
    return {"columns": [*found[1]], "failed": failed, "changing": changing, "unchanged": unchanged}


def _form_data(cells: Mapping[str, str], user: User | None, groups: set[str]) -> dict[str, Any]:
    """What a person would fill in; a new account gets no password."""
    data: dict[str, Any] = {**cells, "username": cells["username"] or cells["email"], "usable_password": "false"}
    if user is not None and not cells["username"]:
        data["email"] = user.email
    said = cells.get("is_active", "").lower()
    if said and said not in (*_YES, *_NO):
        raise ValidationError(gettext("« %(said)s » n’est ni oui ni non.") % {"said": said})
    data["is_active"] = said in _YES if said else user is None or user.is_active
    lines = [line.strip() for line in cells.get("groups", "").splitlines()]
    names = [name.strip() for line in lines for name in ([line] if line in groups else re.split("[,;|]", line))]
    return data | {"groups": [name for name in names if name]}


def _save(request: HttpRequest, form: Any) -> User | None:
    """Save an account as its own page does; return a new one."""
    is_old = form.instance.pk is not None
    user: User = _PAGES.save_form(request, form, change=is_old)
    _PAGES.save_model(request, user, form, change=is_old)
    _PAGES.save_related(request, form, [], change=is_old)
    log = _PAGES.log_change if is_old else _PAGES.log_addition
    log(request, user, _PAGES.construct_change_message(request, form, [], add=not is_old))
    return None if is_old else user


def _invite(request: HttpRequest, plan: dict[str, Any], new: Sequence[User]) -> None:
    counts = {"new": len(new), "old": len(plan["changing"]) - len(new), "failed": len(plan["failed"])}
    text = gettext("Comptes ajoutés : %(new)d, modifiés : %(old)d ; lignes refusées : %(failed)d.")
    messages.success(request, text % counts)
    if invited := [user.pk for user in new if settings.HAS_MAIL and user.email and user.is_active]:
        _PAGES.invite(request, User.objects.filter(pk__in=invited))
    if left := len(new) - len(invited):
        text = gettext("Comptes sans invitation : %(count)d. Donnez-leur un mot de passe, chacun à sa page.")
        messages.warning(request, text % {"count": left})


urlpatterns = [
    path("import/", admin.site.admin_view(import_accounts), name="accounts-import"),
    path("export/", admin.site.admin_view(export_accounts), name="accounts-export"),
]
