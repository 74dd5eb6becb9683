"""The organisation's directory, by LDAP: passwords are tried there, accounts and groups follow it.

Its address is RFC 4516's (`LDAP_URL`): host, base, the attribute that people sign in by (`uid`), scope, and a filter.
The package is an extra: this module is imported where the address is set, and nowhere else.
"""

from typing import Any

import ldap
from allauth.socialaccount.models import SocialAccount, SocialToken
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from ldap.filter import filter_format
from ldapurl import LDAPUrl

from chat.access.sign_in import UnavailableError, VouchedBackend, admit

#: One of the answers of a sign-in, four at most.
DIRECTORY_SECONDS = 5.0
_FIELDS = {"givenName": "first_name", "sn": "last_name", "mail": "email"}
_GROUPS = "(|(member=%s)(uniqueMember=%s)(memberUid=%s))"
#: What a directory says of a password that it does not take, or of an account that is locked.
_REFUSED = (ldap.INVALID_CREDENTIALS, ldap.UNWILLING_TO_PERFORM, ldap.CONSTRAINT_VIOLATION)


def person(username: str, password: str = "") -> tuple[str, dict[str, str], list[str]] | None:
    """The name, fields and groups of somebody; `None`: nobody, or a wrong password. Raises `UnavailableError`."""
    url = LDAPUrl(settings.LDAP_URL)
    name = (url.attrs or ["uid"])[0]
    people = f"(&{url.filterstr or '(objectClass=*)'}{filter_format(f'({name}=%s)', [username])})"
    scope = ldap.SCOPE_SUBTREE if url.scope is None else url.scope
    try:
        service = _bound(url, settings.LDAP_BIND_DN, settings.LDAP_BIND_PASSWORD)
        found = _read(service.search_ext_s(url.dn, scope, people, [name, *_FIELDS], timeout=DIRECTORY_SECONDS))
        if len(found) != 1 or name.lower() not in found[0][1]:
            return None
        dn, entry = found[0]
        uid = entry[name.lower()].lower()
        try:
            if password:
                _bound(url, dn, password)
        except _REFUSED:
            return None
        memberships = filter_format(_GROUPS, [dn, dn, uid])
        groups = _read(service.search_ext_s(url.dn, ldap.SCOPE_SUBTREE, memberships, ["cn"], timeout=DIRECTORY_SECONDS))
    except (ldap.LDAPError, UnicodeDecodeError) as error:
        raise UnavailableError from error
    fields = {field: entry[attribute.lower()] for attribute, field in _FIELDS.items() if attribute.lower() in entry}
    return uid, fields, [group["cn"] for _dn, group in groups if "cn" in group]


def _bound(url: LDAPUrl, dn: str, password: str) -> Any:
    connection = ldap.initialize(url.initializeUrl())
    for option in (ldap.OPT_NETWORK_TIMEOUT, ldap.OPT_TIMEOUT):
        connection.set_option(option, DIRECTORY_SECONDS)
    connection.set_option(ldap.OPT_REFERRALS, 0)
    if url.urlscheme == "ldap" and url.hostport.partition(":")[0] not in ("localhost", "127.0.0.1"):
        # Passwords never go in the clear.
        connection.start_tls_s()
    connection.simple_bind_s(dn, password)
    return connection


def _read(rows: list[Any]) -> list[tuple[str, dict[str, str]]]:
    """Entries by DN. Servers write the names of attributes as they like; a referral has no DN."""
    return [(dn, {name.lower(): values[0].decode() for name, values in row.items()}) for dn, row in rows if dn]


class DirectoryBackend(VouchedBackend, ModelBackend):
    """Sessions of people whose password the directory took."""

    provider = "ldap"

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> User | None:  # type: ignore[override]
        name, password = credentials.get("username"), credentials.get("password")
        # An empty password would be no try but an anonymous connection.
        if (found := person(name, password) if name and password else None) is None:
            return None
        uid, fields, groups = found
        user = admit(self.provider, uid, groups, lambda: _account(uid, fields))
        return user if user.is_active else None

    def groups_now(self, token: SocialToken) -> list[str] | None:
        found = person(token.account.uid)
        return found[2] if found is not None else None


def _account(name: str, fields: dict[str, str]) -> User:
    """A new account, or that of staff's making; one with another way in is somebody else's."""
    user = User.objects.filter(username__iexact=name).first()
    if user is None:
        return User.objects.create_user(name, **fields)
    if user.is_superuser or user.has_usable_password() or SocialAccount.objects.filter(user=user).exists():
        raise PermissionDenied
    return user
