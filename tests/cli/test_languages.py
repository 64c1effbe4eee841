"""Commands that print a document speak Portuguese with --lang; what programs read stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Bench, lastro
from .suites import WITH_A_GAP, write_folder
from .test_compare import pair, steady

PORTUGUESE = ("--lang", "pt-BR")


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return pair(tmp_path_factory.mktemp("campaigns"), b=steady("b", slow="apparmor", factor=0.8))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fail-over", "5%"], ("REPROVADO: 2 regressões de mais de 5 % (throughput)", "✕ REGRESSÃO", "×0,8")),
        (["--format", "md"], ("de 24 razões diferem: ", "sem distinção: ", "▼ pior")),
        (["--all"], ("≈ não se distingue", "B / A com seu intervalo de 95 %")),
    ],
)
def test_a_comparison(campaigns: tuple[Path, Path], words: list[str], said: tuple[str, ...]) -> None:
    text = " ".join(lastro("compare", *campaigns, *words, *PORTUGUESE).out.split())
    assert [each for each in said if each not in text] == []


def test_advice_and_a_status(campaigns: tuple[Path, Path]) -> None:
    advice = lastro("advise-replicates", campaigns[0], *PORTUGUESE).out
    assert "blocos necessários" in advice and "com probabilidade de 80 % para cada uma: replicates = " in advice
    status = lastro("status", campaigns[0], *PORTUGUESE).out
    assert "48 de 48 ensaios (100 %)" in status and f"\na seguir: lastro report {campaigns[0]}\n" in status


def test_a_planned_gate_and_a_noise_floor(bench: Bench) -> None:
    assert bench.run({"level": ["a", "b"]}, baseline={"level": "a"}, replicates=4).code == 0
    gate = ("--no-probe", "--gate", "5%", "--from", bench.directory)
    planned = lastro("plan", bench.home / "study.toml", *gate, *PORTUGUESE).out
    assert "Barreira: acima de 5 %, 2 tratamentos e 2 métricas: 4 testes." in planned
    floor = lastro("noise-floor", bench.directory, *PORTUGUESE).out
    assert "linha de base mais ruidosa" in floor and f"guardado com {bench.directory}" in floor


def test_the_end_of_a_suite_and_of_a_campaign(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine", {"memory": WITH_A_GAP["memory"], "uplink": WITH_A_GAP["uplink"]})
    suite = tmp_path / "suite"
    ended = lastro("run", folder, "-o", suite, *PORTUGUESE, drawn=False)
    assert ended.err.splitlines()[-1] == "não executados aqui: memory"
    assert f"\ntabelas: lastro results {suite}\n" in ended.out and "não pôde ser executado" in ended.out
    assert '<html lang="pt-BR">' in (suite / "uplink" / "report.html").read_text()
    resumed = lastro("resume", suite / "uplink", "--no-report", *PORTUGUESE)
    assert "blocos adicionais decidiriam" in resumed.out


@pytest.mark.parametrize("command", ["compare", "advise-replicates", "status"])
def test_json_is_the_same_in_every_language(campaigns: tuple[Path, Path], command: str) -> None:
    words = [command, *(campaigns if command == "compare" else campaigns[:1]), "--json"]
    assert lastro(*words, *PORTUGUESE).out == lastro(*words).out
