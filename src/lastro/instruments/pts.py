"""A test of the Phoronix Test Suite, if the user has installed the suite and the test.

The suite needs a network to download and build tests, and an instance has none. So the suite and its installed tests
are copied from the host into the image. Source: the documentation of the suite, version 10.

Not yet tested with the real suite, which Debian does not package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from lastro.errors import InputError, InstrumentError, Unavailable
from lastro.host.base import Host
from lastro.instruments import _user_programs
from lastro.instruments.base import Workload, positive
from lastro.requirements import Requirements
from lastro.results.samples import Metric, Reading
from lastro.study.model import Setting

PROGRAM = "phoronix-test-suite"
_SUITES = ("/usr/share/phoronix-test-suite", "/usr/local/share/phoronix-test-suite")
_DATA = ("/var/lib/phoronix-test-suite", "/root/.phoronix-test-suite")  # root's: since version 8, and before it
_INSIDE = "/usr/local/bin/lastro-pts"
_SCRIPT = f"{_INSIDE}/suite/pts-core/phoronix-test-suite.php"
_ENVIRONMENT = {"PTS_DIR": f"{_INSIDE}/suite/", "PTS_MODE": "CLIENT", "PTS_USER_PATH_OVERRIDE": f"{_INSIDE}/data/"}
_HINT = "install it from phoronix-test-suite.com, then run: phoronix-test-suite install TEST; batch-setup"
_AVERAGE = re.compile(r"^[ \t\r]{0,40}Average: (\d{1,15}(?:\.\d{1,9})?) (\S.{0,60}?)[ \t\r]{0,40}$", re.M | re.A)
_SECONDS = "Seconds"
_TRIALS = re.compile(r"^[ \t\r]{0,40}Started Run \d+ @", re.M | re.A)


def check_test(name: str) -> None:
    """Check that this can be the name of a test, such as pts/compress-gzip or pts/dbench-1.0.2. Raises: InputError."""
    if not re.fullmatch(r"[a-z]+/[a-z0-9][a-z0-9.-]*", name):
        raise InputError(f"'{name}' is not the name of a test", "write it as the suite does, such as pts/compress-gzip")


_TEST = Setting("test", "pts/compress-gzip", "name of the test", check=check_test)
_PRESET = Setting("preset", "", "its options in the format of PRESET_OPTIONS, such as dbench.clients=6")
_RUNS = Setting("runs", 1, "runs of the test in a trial", 1, 100, by_profile=True)


class Pts(Workload):
    name = "pts"
    summary = "one test of the Phoronix Test Suite, if the user has installed it"
    requirements = Requirements(program=PROGRAM, remedy=_HINT)
    packages = ("php-cli", "php-xml")
    version_argv = ("sh", "-c", f"grep -o 'PTS_VERSION., *.[0-9.]*[0-9]' {_INSIDE}/suite/pts-core/pts-core.php")
    options = (_TEST, _PRESET, _RUNS)
    short = {"runs": 1}
    probe_limit_s = 3600.0  # the default of a trial: tests have no short version, so one run is the probe
    metrics = (
        Metric("pts_result", "1", "neither", "mean of the runs that the suite prints, in the unit of the test"),
        Metric("pts_seconds", "s", "lower", "the same, of a test whose unit is seconds"),
    )

    @classmethod
    def programs(cls, host: Host) -> tuple[str, ...]:
        suite, data = _sources(host)
        return (_user_programs.gather_files(host, cls.name, {"suite": suite, "data": data}),)

    @classmethod
    def require(cls, host: Host) -> None:
        _sources(host)

    def argv(self) -> list[str]:
        environment = {"FORCE_TIMES_TO_RUN": str(_RUNS.of(self.chosen))}
        if preset := _PRESET.of(self.chosen):
            environment["PRESET_OPTIONS"] = preset
        return _inside(environment, "batch-run", _TEST.of(self.chosen))

    def read(self, text: str) -> Reading:
        averages = _AVERAGE.findall(text)
        if len(averages) != 1:
            hint = "choose one variant of the test by `preset`" if averages else None
            raise InstrumentError(f"the suite printed {len(averages)} averages: …{text[-80:]!r}", hint)
        ran, asked = len(_TRIALS.findall(text)), _RUNS.of(self.chosen)
        reasons = () if ran == asked else (f"the suite ran the test {ran} times instead of {asked}",)
        average = positive("the suite's average", float(averages[0][0]))
        unit = averages[0][1]
        values = {"pts_result": average} | ({"pts_seconds": average} if unit == _SECONDS else {})
        return Reading(values, invalid_because=reasons)

    def expected_s(self, cpus: float, slowdown: float) -> float:
        return 60.0 * _RUNS.of(self.chosen) * slowdown  # no more than a guess: tests differ


def _inside(environment: Mapping[str, str], *words: str) -> list[str]:
    """Return the command line of the suite inside an instance, with the variables that its start script would set."""
    variables = [f"{name}={value}" for name, value in {**_ENVIRONMENT, **environment}.items()]
    return ["env", "-C", f"{_INSIDE}/suite", *variables, "php", _SCRIPT, *words]


def _sources(host: Host) -> tuple[Path, Path]:
    """Return (directory of the suite, directory of its installed tests). Raises: Unavailable when one is missing."""
    host.require(PROGRAM, _HINT)
    suite = next((Path(d) for d in _SUITES if (Path(d) / "pts-core" / "phoronix-test-suite.php").is_file()), None)
    data = next((Path(d) for d in _DATA if (Path(d) / "installed-tests").is_dir()), None)
    if suite is None or data is None:
        raise Unavailable(f"{PROGRAM} is there, but {'no test is installed' if suite else 'its files are not'}", _HINT)
    return suite, data
