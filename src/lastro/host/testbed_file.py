"""The testbed file: the hosts of the roles, their addresses, and the network cards that connect them.

A role that is not in the file, or that has no address, is on this machine. This module imports pydantic, so only
commands with a testbed file import it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from lastro.errors import StudyError
from lastro.host._connections import SshTarget
from lastro.host.cgroups import parse_cpus
from lastro.study.document import read_document, read_text
from lastro.study.problems import FieldError, Problems
from lastro.study.schema import OneLine, StrictTable, read_shape

ROLES = ("client", "dut", "server")
NEIGHBOURS = {"client": ("dut",), "dut": ("client", "server"), "server": ("dut",)}
_HINT = "docs/reference-testbed.md describes the file; examples/testbeds/three-machines.toml is an example"


def _pattern(pattern: str, what: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if isinstance(value, str) and not re.fullmatch(pattern, value):
            raise PydanticCustomError("text", what)
        return value

    return BeforeValidator(check)


def _cpus(value: Any) -> Any:
    if isinstance(value, str) and not parse_cpus(value):
        raise PydanticCustomError("cpus", "is not a list of CPUs as the kernel writes it, such as 0-3 or 0,2")
    return value


# No value on ssh's command line can begin with a hyphen, and so be taken for an option.
_Address = Annotated[OneLine, _pattern(r"[A-Za-z0-9\[][A-Za-z0-9_.:%\[\]-]*", "is not a host name or address")]
_User = Annotated[OneLine, _pattern(r"[A-Za-z_][A-Za-z0-9_.-]*\$?", "is not a user name")]
_Link = Annotated[OneLine, _pattern(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,14}", "is not the name of a network interface")]
_Place = Annotated[
    OneLine, _pattern(r"/[A-Za-z0-9_./+-]*[A-Za-z0-9_+-]", "is not an absolute path of letters, digits and ._+-")
]


class RoleTable(StrictTable):
    """The table of one role. `address`, `user`, `port`, `identity` and `known_hosts` mean the same as for ssh."""

    address: _Address | None = None
    user: _User | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    identity: OneLine | None = None
    known_hosts: OneLine | None = None
    state: _Place = "/var/lib/lastro"
    run: _Place = "/run/lastro"
    cpus: Annotated[OneLine, BeforeValidator(_cpus)] | None = None
    links: dict[str, _Link] = Field(default_factory=dict)


class TestbedShape(StrictTable):
    __test__: ClassVar[bool] = False

    client: RoleTable = Field(default_factory=RoleTable)
    dut: RoleTable = Field(default_factory=RoleTable)
    server: RoleTable = Field(default_factory=RoleTable)


@dataclass(frozen=True, slots=True)
class RolePlan:
    """The host of a role; `reach` is None for this machine. `links` maps other roles to network cards towards them."""

    reach: SshTarget | None = None
    cpus: str | None = None
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TestbedFile:
    __test__: ClassVar[bool] = False  # its name looks like a test's to pytest

    roles: Mapping[str, RolePlan]
    file: str = ""

    def provenance(self) -> dict[str, Any]:
        """Return the provenance of the testbed, for reports. It leaves out SSH keys and their paths."""
        found: dict[str, Any] = {}
        for role, plan in self.roles.items():
            where = plan.reach.name if plan.reach else "this machine"
            found[role] = {"reached": where, "cpu_set": plan.cpus or "all", "links": dict(plan.links)}
        return found


def load(path: Path) -> TestbedFile:
    """Read a testbed file. Raises: StudyError when it cannot be read or is not a valid testbed."""
    return parse(read_text(path, "testbed", _HINT), str(path))


def load_named(path: Path) -> TestbedFile:
    """Read the testbed file that a campaign names.

    The campaign may be from another user, and root logs in at the addresses in the file. So the file must belong to the
    caller. Raises: StudyError when it belongs to another user, cannot be read, or is not a valid testbed."""
    hint = "the campaign names this file; if it is the right one, pass it with --testbed"
    return parse(read_text(path, "testbed", hint, own=True), str(path))


def parse(text: str, file: str) -> TestbedFile:
    problems = Problems(file)
    shape = read_shape(read_document(text, problems), problems, TestbedShape)
    roles = {role: _plan(role, getattr(shape, role), problems) for role in ROLES}
    for a, b in (("client", "dut"), ("dut", "server")):
        if roles[a].reach != roles[b].reach:
            for role, other in ((a, b), (b, a)):
                if other not in roles[role].links:
                    wrong = FieldError(
                        f"{role} and {other} are on different hosts, but the network card of the {role} is not given",
                        f'add {role}.links = {{ {other} = "NAME" }}, with the name from `ip link` on that host',
                    )
                    problems.add((role, "links"), wrong)
    try:
        problems.raise_if_any()
    except StudyError as error:
        error.hint = error.hint or _HINT
        raise
    return TestbedFile(roles, file)


def _plan(role: str, table: RoleTable, problems: Problems) -> RolePlan:
    for other in table.links:
        if other not in NEIGHBOURS[role]:
            places = " and ".join(NEIGHBOURS[role])
            problems.add(
                (role, "links", other), FieldError(f"the {role} has no such link", f"its links go to {places}")
            )
    if table.address is None:
        for key in ("user", "port", "identity", "known_hosts"):
            if getattr(table, key) is not None:
                problems.add((role, key), FieldError("applies only to a remote host, but the role has no `address`"))
        return RolePlan(None, table.cpus, dict(table.links))
    reach = SshTarget(
        table.address, table.user, table.port, _expanded(table.identity), _expanded(table.known_hosts), table.state,
        table.run,
    )  # fmt: skip
    return RolePlan(reach, table.cpus, dict(table.links))


def _expanded(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())
