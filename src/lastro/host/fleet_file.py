"""The fleet file: several testbeds by name, or the address of a Dask scheduler whose workers are the testbeds.

Each testbed is either the path of a testbed file, or a table with the keys of a testbed file. Like `testbed_file`, this
module imports pydantic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from lastro.errors import StudyError
from lastro.host import testbed_file
from lastro.host.testbed_file import RoleTable, TestbedFile, TestbedShape
from lastro.study.document import read_document, read_text
from lastro.study.model import NAME_PATTERN
from lastro.study.problems import FieldError, Problems, shown
from lastro.study.schema import OneLine, StrictTable, read_shape

THIS_MACHINE = "this machine"
_MOST_CHARS = 64
_HINT = "docs/reference-fleet.md describes the file; examples/testbeds/fleet.toml is an example"
_SCHEDULER = r"(tcp|tls)://[A-Za-z0-9\[][A-Za-z0-9_.:%\[\]-]*:\d+"
_NO_SCHEDULER = "is not the address of a Dask scheduler, such as tcp://192.0.2.10:8786"
_LONGEST_PATH = 4096  # characters: PATH_MAX of Linux


class FleetShape(StrictTable):
    """The keys of a fleet file. The values of `testbeds` are not checked here but one by one, by `_testbed`."""

    scheduler: Annotated[OneLine, testbed_file.matching(_SCHEDULER, _NO_SCHEDULER)] | None = None
    testbeds: dict[str, Any] = Field(default_factory=dict)


class FleetTestbedShape(RoleTable, TestbedShape):
    """The table of one testbed in a fleet file: a table for each role, or the keys of one host for all roles."""

    def plans(self, problems: Problems) -> Mapping[str, testbed_file.RolePlan]:
        given = self.model_fields_set
        if not given & RoleTable.model_fields.keys():
            return super().plans(problems)
        for role in testbed_file.ROLES:
            if role in given:
                wrong = "the keys beside it describe one host that has all roles: give either these or tables of roles"
                problems.add((role,), FieldError(wrong))
        return dict.fromkeys(testbed_file.ROLES, testbed_file.plan(self, problems))


@dataclass(frozen=True, slots=True)
class FleetFile:
    """The testbeds of a fleet by name, in the order of the file; or a Dask scheduler, whose workers are testbeds."""

    testbeds: Mapping[str, TestbedFile]
    scheduler: str | None = None
    file: str = ""

    @property
    def place(self) -> str:
        """The absolute path of the file, which a campaign records to find the file again."""
        return str(Path(self.file).absolute())


def load(path: Path) -> FleetFile:
    """Read a fleet file, and the testbed files that it names. Raises: StudyError with all problems."""
    return _parse(read_text(path, "fleet", _HINT), path, own=False)


def load_named(path: Path) -> FleetFile:
    """Read the fleet file that a campaign names, as `testbed_file.load_named` does. Raises: StudyError."""
    hint = "the campaign names this file; if it is the right one, pass it with --fleet"
    return _parse(read_text(path, "fleet", hint, own=True), path, own=True)


def _parse(text: str, path: Path, *, own: bool) -> FleetFile:
    problems = Problems(str(path))
    try:
        shape = read_shape(read_document(text, problems), problems, FleetShape)
        testbeds = {}
        for name, value in shape.testbeds.items():
            with suppress(StudyError):  # the problems of all testbeds are raised together
                testbeds[name] = _testbed(value, path, problems.below("testbeds", name), own=own)
        _check(shape, testbeds, problems)
        problems.raise_if_any()
    except StudyError as error:
        error.hint = error.hint or _HINT
        raise
    return FleetFile(testbeds, shape.scheduler, str(path))


def _testbed(value: Any, fleet: Path, problems: Problems, *, own: bool) -> TestbedFile:
    """Return the testbed that the entry `value` of the fleet file `fleet` describes.

    `value` is a path, relative to the fleet file, or a table. With `own`, a testbed file must belong to the caller.

    Raises: StudyError when the entry or its file cannot be used. Invalid values in a table only go to `problems`."""
    if isinstance(value, dict):
        return testbed_file.read_testbed(value, problems, FleetTestbedShape)
    if not isinstance(value, str) or len(value) > _LONGEST_PATH:
        wrong = f"must be the path of a testbed file, or a table, but is {shown(value)}"
        problems.add((), FieldError(wrong))
        problems.raise_if_any()
    try:
        path = Path(value) if value == testbed_file.GUEST else fleet.parent / Path(value).expanduser()
    except RuntimeError:
        problems.add((), FieldError(testbed_file.UNKNOWN_HOME))
        problems.raise_if_any()
    try:
        return (testbed_file.load_named if own else testbed_file.load)(path)
    except StudyError as error:
        problems.add((), FieldError(error.message, (error.hint or "").replace("\n", "; ")))
        raise


def _check(shape: FleetShape, testbeds: Mapping[str, TestbedFile], problems: Problems) -> None:
    """Add the problems of the fleet as a whole: scheduler and testbeds, or neither; invalid names; a host in two."""
    if shape.scheduler and shape.testbeds:
        wrong = "give either a scheduler, whose workers are the testbeds, or testbeds"
        problems.add(("scheduler",), FieldError(wrong))
    if not shape.scheduler and not shape.testbeds:
        problems.add((), FieldError("has neither testbeds nor a scheduler"))
    for name in shape.testbeds:
        if not re.fullmatch(NAME_PATTERN, name) or len(name) > _MOST_CHARS:
            rule = f"1 to {_MOST_CHARS} of a-z, 0-9, '.', '_' and '-', the first a letter or digit"
            problems.add(("testbeds", name), FieldError(f"is not a valid name: a name has {rule}"))
    first: dict[str, str] = {}
    for name, testbed in testbeds.items():
        for host in hosts(testbed):
            if (other := first.setdefault(host, name)) != name:
                problems.add(
                    ("testbeds", name),
                    FieldError(
                        f"uses {host}, and so does testbed '{other}'",
                        "give each host to one testbed: two measurements on it would disturb each other",
                    ),
                )


def hosts(testbed: TestbedFile) -> tuple[str, ...]:
    """Return the distinct hosts of a testbed: "ADDRESS:PORT" if remote, THIS_MACHINE for this machine or a guest."""
    targets = [plan.target for plan in testbed.roles.values()] or [None]
    names = (f"{target.address.lower()}:{target.port or 22}" if target else THIS_MACHINE for target in targets)
    return tuple(dict.fromkeys(names))
