"""`lastro doctor` on this host: real attempts, told as they are made."""

from __future__ import annotations

import pytest

from lastro import registry

from ..cli.conftest import is_error, lastro

pytestmark = pytest.mark.root


def test_two_platforms() -> None:
    done = lastro("doctor", "--platform", "native", "--platform", "runc", "--json", "--wait")
    assert done.code == 0, done.err
    assert "trying native" in done.err and "trying runc" in done.err
    document = done.json
    assert document["host"]["host"]["cpus"] > 0
    matrix = {(cell["platform"], cell["attachment"], cell["isolation"]): cell for cell in document["matrix"]}
    n = 2 * len(registry.names("attachment")) * len(registry.names("isolation"))
    assert len(matrix) == len(document["matrix"]) == n
    assert matrix["runc", "veth-direct", "seccomp"]["available"]
    assert "cannot confine" in matrix["native", "veth-direct", "seccomp"]["reason"]
    attempts = {(part["kind"], part["name"], part["on"]): part for part in document["parts"]}
    for (platform, attachment, isolation), cell in matrix.items():
        both = [attempts["attachment", attachment, platform], attempts["isolation", isolation, platform]]
        assert cell["available"] == all(part["available"] for part in both)
        assert cell["available"] or cell["reason"] in [part["reason"] for part in both]


def test_a_platform_that_is_none() -> None:
    is_error(lastro("doctor", "--platform", "dokcer"), 2, "no platform is named 'dokcer'", "did you mean 'docker'?")
    done = lastro("doctor", "--platform", "docker:storage=punchcards", "--wait")
    assert done.code == 0, "an option that cannot be had is a finding, not an error"
    assert "punchcards" in done.out
