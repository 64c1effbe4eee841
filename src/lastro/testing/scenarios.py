"""The contract of a scenario: its declarations are complete; a trial measures what they say and leaves nothing."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import FrameType
from typing import Any, ClassVar, get_args

import pytest

from lastro import registry
from lastro.host.base import Completed, Host
from lastro.results.additions import AlignedSeries, Milestones
from lastro.results.samples import Better, Outcome
from lastro.results.trial_notes import remarks_of
from lastro.scenarios.base import Config, Scenario, schema
from lastro.study import design
from lastro.study.load import parse
from lastro.study.model import Level, Setting
from lastro.testbed import Testbed
from lastro.testing.subject import trial_leftovers

_ATTEMPTS = 3
_LONGEST_S = 3600.0


class ScenarioContract:
    """The contract of a scenario: its settings are complete, and a short trial measures what it declares.

    A test module may define `image_needs(host)`, which returns the additions to the image that the trial needs."""

    scenario: ClassVar[str]
    short: ClassVar[Mapping[str, Level]]  # levels and settings of the shortest useful trial; the others have defaults
    unmeasured: ClassVar[frozenset[str]] = frozenset()  # metrics that this trial may lack without a note in its outcome

    @pytest.fixture(scope="class")
    @classmethod
    def running(cls, testbed: Testbed) -> Iterator[Scenario]:
        with closing(registry.get(Scenario, cls.scenario)(testbed)) as scenario:
            yield scenario

    @property
    def config(self) -> Config:
        """The configuration of the single treatment of a study that has the levels and settings of `short`."""
        study_schema = schema(registry.get(Scenario, self.scenario))
        factor, *_ = (name for name in self.short if name in study_schema.parts)
        constants = [f"{name} = {json.dumps(value)}" for name, value in self.short.items() if name != factor]
        head = ["[study]", 'name = "contract"', f'scenario = "{self.scenario}"', "[factors]"]
        factors = [f"{factor} = [{json.dumps(self.short[factor])}]", "[settings]"]
        study = parse("\n".join([*head, *factors, *constants, ""]), "contract.toml", {self.scenario: study_schema})
        (treatment,) = design.treatments(study)
        return study.config(treatment.levels)

    def test_what_a_study_may_choose_is_declared_in_full(self) -> None:
        kind = registry.get(Scenario, self.scenario)
        study_schema = schema(kind)
        for setting in study_schema.settings.values():
            _assert_complete(setting)
        for part in kind.parts:
            assert study_schema.parts[part] and study_schema.parts[part] <= registry.names(part)
        assert study_schema.combinable | study_schema.chainable <= study_schema.parts.keys()
        metrics = kind.known_metrics()
        assert set(kind.metrics) <= set(metrics)
        assert len({metric.name for metric in metrics}) == len(metrics) == len(study_schema.metrics)
        assert all(metric.unit and metric.summary and metric.better in get_args(Better) for metric in metrics)

    def test_what_it_adds_to_a_report_is_of_its_own(self) -> None:
        kind = registry.get(Scenario, self.scenario)
        assert len({figure.name for figure in kind.figures}) == len(kind.figures)
        metrics = {metric.name for metric in kind.known_metrics()}
        for figure in kind.figures:
            assert figure.title
            if isinstance(figure, Milestones):
                assert figure.axis and set(figure.metrics) <= metrics
            elif isinstance(figure, AlignedSeries):
                assert figure.axis and all(figure.lines.values())
        if (sized := kind.sized) is not None:
            assert sized.factor in {*kind.parts, *schema(kind).settings}
            assert 0 < len(sized.measures) == len(sized.columns)

    def test_a_study_of_it_can_be_planned(self) -> None:
        kind = registry.get(Scenario, self.scenario)
        needed = kind.calibrations(self.config)
        for config in (self.config, *needed.values()):
            assert 0 < kind.duration_s(config) < _LONGEST_S
        assert {key.partition("/")[0] for key in needed} <= kind.calibration_kinds.keys()
        assert 0 <= kind.probing_s([self.config]) < _LONGEST_S

    def test_a_trial_measures_what_is_declared_and_an_interrupted_one_leaves_nothing(
        self, testbed: Testbed, running: Scenario
    ) -> None:
        availability = running.availability(self.config)
        assert availability, availability.reason
        calibrations = self._calibrations(running)
        for _ in range(_ATTEMPTS):  # other work on this host may invalidate a trial
            outcome, n_commands = self._run(running, calibrations)
            if outcome.valid:
                break
        assert outcome.valid, outcome.invalid_because
        assert n_commands, "a trial can be repeated from its transcript"
        names, before = set(outcome.measurements), trial_leftovers(testbed)
        known = schema(type(running)).metrics_for(self.config)
        usual, chosen = ({metric.name for metric in running.metrics_by(config)} for config in ({}, self.config))
        expected = {metric.name for metric in running.metrics} - usual | chosen
        noted_missing = {name for remark in remarks_of(outcome.notes) for name in remark.metrics}
        assert expected - self.unmeasured - noted_missing <= names
        largest = {setting.name: setting.maximum for setting in running.settings if setting.maximum is not None}
        of_others = schema(type(running)).metrics_for({**self.config, **largest})  # to compare with other treatments
        assert names <= known.keys() | of_others.keys()
        json.dumps(outcome.notes)
        with pytest.raises(KeyboardInterrupt), _interrupted_at(testbed.host, n_commands // 2):
            self._run(running, calibrations)
        assert trial_leftovers(testbed) == before

    def _calibrations(self, running: Scenario) -> dict[str, Any]:
        calibrations: dict[str, Any] = {}
        for key, config in running.calibrations(self.config).items():
            with running.attempt():
                calibrations[key] = running.calibration_value(key, running.run(config, calibrations))
        return calibrations

    def _run(self, running: Scenario, calibrations: Mapping[str, Any]) -> tuple[Outcome, int]:
        """Run a trial, and return its outcome and the number of its commands."""
        with running.attempt() as transcript:
            outcome = running.run(self.config, calibrations)
        return outcome, sum(record["kind"] == "run" for record in transcript.records)


def _assert_complete(setting: Setting[Any]) -> None:
    """Assert that a setting has documentation and bounds, and that its default is an allowed value."""
    assert setting.summary, setting.name
    default = setting.default
    if isinstance(default, bool):
        return
    if isinstance(default, str):
        assert setting.choices or setting.check, f"{setting.name} allows any text"
        assert not setting.choices or default in setting.choices
        if setting.check:
            setting.check(default)
        return
    assert setting.minimum is not None and setting.minimum <= default, setting.name
    assert setting.maximum is None or default <= setting.maximum, setting.name


@contextmanager
def _interrupted_at(host: Host, command: int) -> Iterator[None]:
    """Interrupt the block, as Ctrl-C does, when it begins the command with the index `command` (from 0)."""
    run, index = host.run, itertools.count()

    def counted(argv: Sequence[str], **how: Any) -> Completed:
        if next(index) == command:
            os.kill(os.getpid(), signal.SIGALRM)
        return run(argv, **how)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(host, "run", counted)
            yield
    finally:
        signal.signal(signal.SIGALRM, handler)
