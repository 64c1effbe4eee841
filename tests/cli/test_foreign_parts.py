"""Parts that are not ours, which do anything: commands that do not use them go on as before, and one that does names
the part and the line, or stores an invalid trial. It is never a bug in Lastro, and no campaign becomes unreadable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lastro.campaign.outcomes import storable
from lastro.results.samples import Outcome, PackedHistogram, Series

from ..support.campaigns import make_campaign
from ..support.products import some
from .conftest import PARTS, Finished, is_error, lastro, study_text

ANOMALY = """
from lastro.anomalies.base import Anomaly
from lastro.study.model import Setting
{before}
class Noise(Anomaly):
    name = {name}
    summary = {summary}
    {body}

    def argv(self, demand):
        return ["true"]
"""
SCENARIO = """
from lastro.platforms.base import AVAILABLE, Availability
from lastro.results.samples import Metric, Outcome, Series
from lastro.scenarios.base import Scenario
from lastro.study.model import Setting
class Mine(Scenario):
    name = "mine"
    summary = "does what it is told"
    needs_root = False
    settings = (Setting("level", "a", "a level", choices=("a", "b")),)
    metrics = (Metric("speed", "Mbit/s", "higher", "how fast"),)
    {body}
    @classmethod
    def duration_s(cls, config):
        {duration_s}
    def availability(self, config):
        {availability}
    def run(self, config, calibrations):
        {run}
"""
# What a module does when it is imported, and what its error says; a name, a summary and a body of a class.
AT_IMPORT = {
    "raise RuntimeError('boom')": "RuntimeError: boom", "1 / 0": "ZeroDivisionError", "def (": "SyntaxError",
    "import sys; sys.exit(0)": "SystemExit: 0", "import no_such_module": "No module named 'no_such_module'",
    "def f(): f()\nf()": "RecursionError", "raise BaseException('b')": "BaseException: b", "assert False": "Assertion",
    "raise ValueError('one\\ntwo \\x1b[31m' + 'x' * 9999)": "ValueError: one two",
    "raise GeneratorExit": "GeneratorExit",
    "class E(Exception):\n    def __str__(self): 1 / 0\nraise E()": "E: <exception str() failed>",
}  # fmt: skip
NAMES = ("5", "None", "''", "'a b'", "'x' * 5000", "'\\x1b[31m'", "'a>b'", "'a:b'", "'a+b'", "b'x'", "['a']", "'-x'")
SUMMARIES = ("5", "None", "'x' * 99999", "'a\\nb'", "'\\x1b[31m'")
BODIES = (
    "options = 5", "options = None", "options = ('x',)", "options = [Setting('a', 'b', 'c')]", "requirements = 5",
    "options = (Setting('a', object(), 'c'),)", "options = (Setting('n', 5, 'x', choices=5),)",
    "options = (Setting('n', float('nan'), 'x'),)", "options = (Setting('n', 'a', 5),)",
    "options = (Setting('n', 'a', 'x', check=5),)",
)  # fmt: skip
BROKEN = {
    **{f"import: {text}": ({"before": text}, words) for text, words in AT_IMPORT.items()},
    **{f"name: {text}": ({"name": text}, "must be a short name") for text in NAMES},
    **{f"summary: {text}": ({"summary": text}, "must be a short name") for text in SUMMARIES},
    **{f"body: {text}": ({"body": text}, "TypeError: Noise.") for text in BODIES},
}
DEFECTS = ("raise RuntimeError('boom')", "import sys; sys.exit(0)", "1 / 0", "return f()")
SCENARIOS = {
    "duration_s": (*DEFECTS, *(f"return {x}" for x in ("None", "'x'", "-5", "1e308", "10**400", "float('nan')"))),
    "availability": (*DEFECTS, "return None", "return True", "return Availability(5, 6)"),
    "run": (*DEFECTS, *(f"return {x}" for x in ("None", "Outcome({'speed': 'fast'})", "Outcome({'speed': 10**30})",
            "Outcome({'speed': 10**400})", "Outcome({'speed': 5.0}, [], [], {'x': object()})",
            "Outcome({'speed': 5.0}, [], [], {(1, 2): 3})", "Outcome({'\\ud800': 5.0})", "Outcome(5)"))),
    "body": ("settings = 5", "metrics = ('speed',)", "metrics = (Metric('speed', 5, 'higher', 'x'),)", "sized = 5",
             "metrics = (Metric('speed', 'x', 'sideways', 'x'),)", "parts = ('nothing',)", "figures = 5", "leads = 5"),
}  # fmt: skip
CASES = [(where, text) for where, texts in SCENARIOS.items() for text in texts]


def folder(home: Path, kind: str, text: str) -> dict[str, str]:
    """Write a part, and return the environment in which it is known."""
    (home / "parts" / kind).mkdir(parents=True)
    (home / "parts" / kind / "mine.py").write_text(text)
    return {"LASTRO_PARTS": f"{home / 'parts'}:{PARTS}"}


def anomaly(**changes: str) -> str:
    return ANOMALY.format(**{"before": "", "name": "'noise'", "summary": "'makes noise'", "body": ""} | changes)


def is_no_bug(done: Finished) -> None:
    assert "bug in Lastro" not in done.err and done.code in (0, 1, 2, 3, 7), done
    if done.code == 1:
        assert "a part has failed, in " in done.err and "mine.py" in done.err, done.err
        Path(done.err.split()[-1]).unlink()  # its traceback


@pytest.mark.parametrize("which", some(BROKEN, 4))
def test_a_broken_part_is_listed_and_changes_nothing_else(tmp_path: Path, which: str) -> None:
    changes, words = BROKEN[which]
    env = folder(tmp_path, "anomalies", anomaly(**changes))
    listed = {part["name"]: part for part in lastro("parts", "anomaly", "--json", env=env).json}
    reason = listed["mine"]["broken"]
    assert words in reason and reason.isprintable() and len(reason) < 400
    make_campaign(tmp_path / "c")
    for command in (("plan", "demo", "--no-probe"), ("results", "c"), ("schema", "chain"), ("studies",)):
        done = lastro(*command, cwd=tmp_path, env=env)
        assert (done.code, done.err) == (0, ""), (command, done)


@pytest.mark.parametrize("text", ["1 / 0", "import sys; sys.exit(0)", "def ("])
def test_a_broken_scenario_is_an_error_only_where_it_is_used(tmp_path: Path, text: str) -> None:
    env = folder(tmp_path, "scenarios", text)
    for scenario in ("mine", "synthetic"):
        (tmp_path / f"{scenario}.toml").write_text(study_text({"level": ["a", "b"]}, scenario=scenario))
    assert lastro("plan", tmp_path / "synthetic.toml", env=env).code == 0
    error = is_error(lastro("plan", tmp_path / "mine.toml", env=env), 3, "correct ", "mine.py, line 1")
    assert error.startswith("lastro: scenario 'mine' cannot be used: ")


@pytest.mark.parametrize("case", some(CASES, 3), ids=str)
def test_a_scenario_of_nonsense_is_named_and_its_campaign_can_be_read(tmp_path: Path, case: tuple[str, str]) -> None:
    where, text = case
    usual = {"body": "", "duration_s": "return 0.001", "availability": "return AVAILABLE",
             "run": "return Outcome({'speed': 5.0})"}  # fmt: skip
    env = folder(tmp_path, "scenarios", SCENARIO.format(**usual | {where: text}))
    study, place = tmp_path / "s.toml", tmp_path / "c"
    study.write_text(study_text({"level": ["a", "b"]}, scenario="mine", replicates=2))
    for command in (("plan", study, "--json"), ("run", study, "-o", place, "--no-report")):
        done = lastro(*command, env=env)
        is_no_bug(done)
        assert done.code == 0 or "mine" in done.err, done
    for reader in ("results", "show", "report") if (place / "campaign.db").exists() else ():
        words = {"show": ("1",), "report": ("-o", "-", "--format", "md")}.get(reader, ())
        done = lastro(reader, place, *words, env=env)
        assert (done.code, done.err) == (0, ""), (reader, done)
    assert lastro("parts", "scenario", "--json", env=env).code == 0


def test_what_a_part_prints_is_not_in_a_document(tmp_path: Path) -> None:
    """Neither when it is imported nor later."""
    text = SCENARIO.format(
        body="", duration_s="print('later'); return 1.0", availability="return AVAILABLE", run="return Outcome({})"
    )
    env = folder(tmp_path, "scenarios", "print('hello')\n" + text)
    (tmp_path / "s.toml").write_text(study_text({"level": ["a", "b"]}, scenario="mine"))
    done = lastro("plan", tmp_path / "s.toml", "--json", env=env)
    assert json.loads(done.out)["scenario"] == "mine" and {"hello", "later"} <= set(done.err.split())


OUTCOMES: dict[str, object] = {
    "none": None, "a reading in words": Outcome({"speed": "fast"}), "a truth": Outcome({"speed": True}),  # type: ignore[dict-item]
    "a complex number": Outcome({"speed": 1j}), "a list": Outcome({"speed": [1.0]}), "no name": Outcome({5: 1.0}),  # type: ignore[dict-item]
    "a huge integer": Outcome({"speed": 10**400}), "reasons in one": Outcome({}, [], "why"),  # type: ignore[arg-type]
    "a million metrics": Outcome({f"m{n}": 1.0 for n in range(10**6)}), "a number of series": Outcome({}, 5),  # type: ignore[arg-type]
    "words for samples": Outcome({}, [Series("s", "x", ("a",))]), "half a character": Outcome({"\ud800": 1.0}),  # type: ignore[arg-type]
    "one series twice": Outcome({}, [Series("s", "x", (1.0,))], [], {}, [PackedHistogram("s", "ns", b"")]),
    "notes in a list": Outcome({}, [], [], [1]),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("which", OUTCOMES)
def test_an_outcome_of_other_types_is_invalid_with_a_reason_and_nothing_else(which: str) -> None:
    found = storable(OUTCOMES[which])
    assert len(found.invalid_because) == 1 and len(found.invalid_because[0]) < 200
    assert (found.measurements, found.series, found.notes, found.histograms) == ({}, [], {}, [])


def test_a_usual_outcome_stays_as_it_is() -> None:
    usual = Outcome({"speed": 5, "loss": 0.0}, [Series("s", "x", (1.0,))], ["why \udcff"], {"a": 1})
    assert storable(usual) is usual and usual.measurements == {"speed": 5.0, "loss": 0.0}
