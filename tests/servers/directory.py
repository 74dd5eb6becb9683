"""A real directory on loopback, where Debian's `slapd` is installed."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.servers.ports import free_port
from tests.waiting import wait_until

BASE, ADMIN, PASSWORD = "dc=example,dc=org", "cn=admin,dc=example,dc=org", "only-for-tests"
_CONFIGURATION = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
suffix {base}
rootdn {admin}
rootpw {password}
directory {folder}
access to attrs=userPassword by anonymous auth
access to * by dn.exact={admin} read
"""
_PEOPLE = """
dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: uid=Marie,dc=example,dc=org
objectClass: inetOrgPerson
uid: Marie
cn: Marie Curie
sn: Curie
givenName: Marie
mail: marie@example.org
userPassword: polonium

dn: cn=agents,dc=example,dc=org
objectClass: groupOfNames
cn: agents
member: uid=Marie,dc=example,dc=org
member: uid=other,dc=example,dc=org

dn: cn=old,dc=example,dc=org
objectClass: posixGroup
cn: old
gidNumber: 7
memberUid: marie
"""


@contextmanager
def directory(folder: Path) -> Iterator[tuple[str, Any]]:
    """Its address, and a connection of its administrator."""
    ldap = pytest.importorskip("ldap", reason="python-ldap is not installed")
    slapd = shutil.which("slapd", path="/usr/sbin:/usr/bin")
    if slapd is None:
        pytest.skip("slapd is not installed")
    configuration = folder / "slapd.conf"
    configuration.write_text(_CONFIGURATION.format(base=BASE, admin=ADMIN, password=PASSWORD, folder=folder))
    loaded = ["slapadd", "-f", str(configuration)]
    subprocess.run(loaded, input=_PEOPLE, text=True, check=True, executable="/usr/sbin/slapadd")  # noqa: S603
    url = f"ldap://127.0.0.1:{free_port()}"
    server = subprocess.Popen([slapd, "-f", str(configuration), "-h", url, "-d", "0"])  # noqa: S603
    try:
        connection = ldap.initialize(url)

        def answers() -> bool:
            try:
                return bool(connection.simple_bind_s(ADMIN, PASSWORD))
            except ldap.SERVER_DOWN:
                return False

        wait_until(answers)
        yield url, connection
    finally:
        server.kill()
        server.wait()
