"""The testbed file: the hosts of the roles, their addresses, and the network cards that connect them; or a guest.

A role that is not in the file, or that has no address, is on this machine. A file of `kind = "guest"` puts all roles
into one disposable virtual machine. With tables `[guests.NAME]` there are several, and the study's factor `guest`
selects one. The word `guest` instead of a path stands for a file of this kind with the default of each key. This module
imports pydantic, so only commands with a testbed file import it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from lastro import registry
from lastro.errors import InputError, StudyError, did_you_mean
from lastro.host.base import NOT_A_PLACE, PLACE
from lastro.host.cgroups import parse_cpus
from lastro.host.connections import SshTarget
from lastro.study.document import read_document, read_text
from lastro.study.model import NAME_PATTERN
from lastro.study.problems import FieldError, Problems
from lastro.study.schema import OneLine, StrictTable, read_shape
from lastro.units import parse_size_bytes

GUEST = "guest"
_WITH_VIRTUALBOX = "sid"
ROLES = ("client", "dut", "server")
NEIGHBOURS = {"client": ("dut",), "dut": ("client", "server"), "server": ("dut",)}
PLATFORMS = ("native", "runc", "crun", "docker")
_KERNEL = "is neither a Debian package, such as linux-image-amd64 or linux-image-amd64/trixie, nor an absolute path"
UNKNOWN_HOME = "begins with the home directory of an unknown user"
_NO_CPUS = "is not a list of CPUs as the kernel writes it, such as 0-3 or 0,2"
_LEAST_MEMORY_BYTES = 512 << 20
_NO_SELINUX = (
    "Debian's SELinux policy did not load in a guest, and Debian builds it without the module `container`, which has"
    " the type container_t: the isolation selinux needs a host with container-selinux (Fedora, RHEL, Alma)"
)
_HINT = "docs/reference-testbed.md describes the file; examples/testbeds/three-machines.toml is an example"


def _checked(is_valid: Callable[[str], object], what: str) -> BeforeValidator:
    """Return a validator that a string is valid; its error message is the key's name followed by `what`."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and not is_valid(value):
            raise PydanticCustomError("text", what)
        return value

    return BeforeValidator(check)


def matching(pattern: str, what: str) -> BeforeValidator:
    return _checked(re.compile(pattern).fullmatch, what)


def _home(value: Any) -> Any:
    if isinstance(value, str):
        try:
            Path(value).expanduser()
        except RuntimeError as error:
            raise PydanticCustomError("home", UNKNOWN_HOME) from error
    return value


def _memory(value: Any) -> Any:
    if not isinstance(value, str):
        return value  # its type is refused after this check
    try:
        n_bytes = parse_size_bytes(value)
    except InputError as error:
        raise PydanticCustomError("memory", "is not a size, such as 2G") from error
    if n_bytes < _LEAST_MEMORY_BYTES:
        raise PydanticCustomError("memory", "is too little for a guest with instances: give at least 512M")
    return value


def _supported_lsm(value: Any) -> Any:
    if value == "selinux":
        raise PydanticCustomError("lsm", "must be 'apparmor' or 'none', but is 'selinux'", {"hint": _NO_SELINUX})
    return value


def _known_platforms(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    known = registry.names("platform")
    for name in value:
        if isinstance(name, str) and name not in known:
            hint = did_you_mean(name, known)
            raise PydanticCustomError("platform", f"has no platform {name!r}", {"hint": hint})
    return value


# No value on ssh's command line may begin with a hyphen, since ssh would take it for an option.
_Address = Annotated[OneLine, matching(r"[A-Za-z0-9\[][A-Za-z0-9_.:%\[\]-]*", "is not a host name or address")]
_User = Annotated[OneLine, matching(r"[A-Za-z_][A-Za-z0-9_.-]*\$?", "is not a user name")]
_Link = Annotated[OneLine, matching(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,14}", "is not the name of a network interface")]
_Place = Annotated[OneLine, matching(PLACE, NOT_A_PLACE)]
_File = Annotated[OneLine, BeforeValidator(_home)]


class RoleTable(StrictTable):
    """The table of one role in a testbed file."""

    address: _Address | None = None  # for ssh, as the four that follow
    user: _User | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    identity: _File | None = None
    known_hosts: _File | None = None
    state: _Place = "/var/lib/lastro"  # a directory on the host; `run` alike
    run: _Place = "/run/lastro"
    cpus: Annotated[OneLine, _checked(parse_cpus, _NO_CPUS)] | None = None
    links: dict[str, _Link] = Field(default_factory=dict)  # {neighbouring role: network card}


class TestbedShape(StrictTable):
    __test__: ClassVar[bool] = False

    kind: Literal["hosts", "guest"] = "hosts"
    client: RoleTable = Field(default_factory=RoleTable)
    dut: RoleTable = Field(default_factory=RoleTable)
    server: RoleTable = Field(default_factory=RoleTable)

    def plans(self, problems: Problems) -> Mapping[str, RolePlan]:
        """Return {role: its host}, and add contradictions between the roles to `problems`."""
        plans = {role: plan(getattr(self, role), problems.below(role), role) for role in ROLES}
        for a, b in (("client", "dut"), ("dut", "server")):
            for role, other in ((a, b), (b, a)):
                if plans[a].target != plans[b].target and other not in plans[role].links:
                    wrong = FieldError(
                        f"{role} and {other} are on different hosts, but the network card of the {role} is not given",
                        f'add {role}.links = {{ {other} = "NAME" }}, with the name from `ip link` on that host',
                    )
                    problems.add((role, "links"), wrong)
        return plans


class GuestTable(StrictTable):
    """The keys that describe a guest; `GuestPlan` says what they mean."""

    kernel: Annotated[OneLine, matching(r"[a-z0-9][a-z0-9.+-]*(/[a-z]+)?|~?/.+", _KERNEL), BeforeValidator(_home)] = (
        "linux-image-amd64"
    )
    release: Annotated[OneLine, matching(r"[a-z]+", "is not the name of a release, such as bookworm")] = "bookworm"
    cpus: Annotated[int, Field(ge=0, le=64)] = 0
    memory: Annotated[OneLine, BeforeValidator(_memory)] = "2G"
    cgroups: Literal["v2", "v1"] = "v2"
    lsm: Annotated[Literal["apparmor", "none"], BeforeValidator(_supported_lsm)] = "apparmor"
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"
    hypervisor: Literal["none", "xen", "virtualbox"] = "none"
    platforms: Annotated[list[OneLine], BeforeValidator(_known_platforms)] = Field(default_factory=lambda: [*PLATFORMS])


_Name = Annotated[str, matching(NAME_PATTERN, "is not a name of a-z, 0-9, '.', '_' and '-'")]


class GuestShape(GuestTable):
    """A testbed file of `kind = "guest"`: one guest, or several in tables of `guests`.

    The keys outside these tables are common to all guests; a table overrides them for its guest."""

    kind: Literal["guest"]
    guests: dict[_Name, GuestTable] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GuestPlan:
    """A guest to boot."""

    # A Debian package or an absolute path. A package may include its release, as `linux-image-amd64/trixie`.
    kernel: str
    release: str
    cpus: int  # 0: all CPUs of this machine
    memory: str
    cgroups: str
    lsm: str
    accelerator: str  # auto (KVM if a guest boots on it), kvm or tcg (software)
    platforms: tuple[str, ...] = PLATFORMS  # the guest's userland contains their requirements
    hypervisor: str = "none"  # which hypervisor it has; some platforms need a certain one
    name: str = ""  # empty if there is only one guest
    programs: tuple[str, ...] = ()  # programs of this machine that the guest also contains, at the same paths

    def facts(self) -> dict[str, Any]:
        """Return the plan as a chapter of provenance, {key: value}, without the name, and without empty programs."""
        facts = asdict(self) | {name: ", ".join(getattr(self, name)) for name in ("platforms", "programs")}
        del facts["name"]
        return facts if self.programs else {key: value for key, value in facts.items() if key != "programs"}


@dataclass(frozen=True, slots=True)
class RolePlan:
    """The host of a role, its CPUs, and its network cards."""

    target: SshTarget | None = None  # None: this machine
    cpus: str | None = None  # None: all
    links: Mapping[str, str] = field(default_factory=dict)  # {neighbouring role: network card}


@dataclass(frozen=True, slots=True)
class TestbedFile:
    __test__: ClassVar[bool] = False  # its name looks like a test's to pytest

    roles: Mapping[str, RolePlan]
    file: str = ""
    guest: GuestPlan | None = None  # the host of all roles
    guests: Mapping[str, GuestPlan] = field(default_factory=dict)  # each is the host of all roles for some treatments

    @property
    def place(self) -> str:
        """The absolute path of the file, or the word `guest`, by which a campaign finds the testbed again."""
        return self.file if self.file == GUEST else str(Path(self.file).absolute())

    def provenance(self) -> dict[str, Any]:
        """Return {role: {address, CPUs and network cards of its host}} for reports, without paths of SSH keys."""
        if self.guest or self.guests:
            return {role: {"reached": "the guest", "cpu_set": "all", "links": {}} for role in ROLES}
        by_role: dict[str, Any] = {}
        for role, plan in self.roles.items():
            host = plan.target.name if plan.target else "this machine"
            by_role[role] = {"reached": host, "cpu_set": plan.cpus or "all", "links": dict(plan.links)}
        return by_role


def load(path: Path) -> TestbedFile:
    """Read a testbed file; the word `guest` stands for the default guest. Raises: StudyError when it is not valid."""
    if str(path) == GUEST:
        return parse(f'kind = "{GUEST}"', GUEST)
    return parse(read_text(path, "testbed", _HINT), str(path))


def load_named(path: Path) -> TestbedFile:
    """Read the testbed file that a campaign names.

    The campaign may be from another user, and root logs in at the addresses in the file. So the file must belong to the
    caller. Raises: StudyError when it belongs to another user, cannot be read, or is not a valid testbed."""
    if str(path) == GUEST:
        return load(path)
    hint = "the campaign names this file; if it is the right one, pass it with --testbed"
    return parse(read_text(path, "testbed", hint, own=True), str(path))


def parse(text: str, file: str) -> TestbedFile:
    """Parse the text of a testbed file; `file` is its name in errors. Raises: StudyError when it is not valid."""
    problems = Problems(file)
    document = read_document(text, problems)
    try:
        testbed = read_testbed(document, problems, TestbedShape)
        problems.raise_if_any()
    except StudyError as error:
        error.hint = error.hint or _HINT
        raise
    return testbed


def read_testbed(document: dict[str, Any], problems: Problems, shape: type[TestbedShape]) -> TestbedFile:
    """Return the testbed that a parsed TOML table describes, and add invalid values to `problems`.

    `shape` has the permitted keys. Raises: StudyError when the tables, keys or types do not match it."""
    if document.get("kind") == GUEST:
        common = read_shape(document, problems, GuestShape)
        if not common.guests:
            return TestbedFile({}, problems.file, _guest(common, common, problems))
        guests = common.guests.items()
        plans = {name: _guest(common, table, problems.below("guests", name), name) for name, table in guests}
        return TestbedFile({}, problems.file, None, plans)
    return TestbedFile(read_shape(document, problems, shape).plans(problems), problems.file)


def _guest(shape: GuestShape, table: GuestTable, problems: Problems, name: str = "") -> GuestPlan:
    """Return the plan of a guest: keys of `table`, or else of `shape`; add contradictions to `problems`."""
    common = {key: getattr(shape, key) for key in GuestTable.model_fields}
    values = common | {key: getattr(table, key) for key in table.model_fields_set & common.keys()}
    if values["kernel"][:1] in "~/":
        values["kernel"] = _expanded(values["kernel"])
    if values["hypervisor"] == "virtualbox" and values["release"] != _WITH_VIRTUALBOX:
        wrong = FieldError(
            f'must be "{_WITH_VIRTUALBOX}" for hypervisor = "virtualbox": no other release has its package'
        )
        problems.add(("release",), wrong)
    for platform in values["platforms"]:
        needed = registry.get("platform", platform).hypervisor
        if needed not in ("", values["hypervisor"]):
            has = f'but the guest has hypervisor = "{values["hypervisor"]}"'
            hint = "leave one of the two out, or describe a guest for each, in tables [guests.NAME]"
            problems.add(("platforms",), FieldError(f'{platform!r} needs hypervisor = "{needed}", {has}', hint))
    return GuestPlan(**values | {"platforms": tuple(values["platforms"])}, name=name)


def plan(table: RoleTable, problems: Problems, role: str = "") -> RolePlan:
    """Return the host that a role's table describes, and add invalid values to `problems`.

    If `role` is empty, the host has all roles, and its table must have no links."""
    neighbours = NEIGHBOURS.get(role, ())
    for other in table.links:
        if not role:
            problems.add(("links",), FieldError("applies only to roles on different hosts"))
            break
        if other not in neighbours:
            places = " and ".join(neighbours)
            problems.add(("links", other), FieldError(f"the {role} has no such link", f"its links go to {places}"))
    if table.address is None:
        for key in ("user", "port", "identity", "known_hosts"):
            if getattr(table, key) is not None:
                problems.add((key,), FieldError("applies only to a remote host, but there is no `address`"))
        return RolePlan(None, table.cpus, dict(table.links))
    target = SshTarget(
        table.address, table.user, table.port, _expanded(table.identity), _expanded(table.known_hosts), table.state,
        table.run,
    )  # fmt: skip
    return RolePlan(target, table.cpus, dict(table.links))


def _expanded(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())
