"""What ab says of connections with a request each, and what it cannot have measured."""

from __future__ import annotations

import re

import pytest

from lastro.errors import CommandFailed, InstrumentError
from lastro.instruments.ab import Ab

from ...support.recording import FakeInstance, answer
from ...support.workload_samples import DATA

REPORT = (DATA / "ab.txt").read_text()


def with_(name: str, value: str) -> str:
    """The report with another value on one of its lines."""
    changed = re.sub(rf"(?m)^({name}: +)\S+", rf"\g<1>{value}", REPORT)
    assert changed != REPORT
    return changed


def test_transactions_and_their_times_are_those_of_the_report_and_of_its_table() -> None:
    reading = Ab().read(REPORT, 2)
    (complete,) = map(int, re.findall(r"^Complete requests: +(\d+)$", REPORT, re.MULTILINE))
    assert reading.measurements["tcp_connect_transactions"] == pytest.approx(complete / reading.lasted_s)
    rows = dict(re.findall(r"^(\d+),([\d.]+)$", REPORT, re.MULTILINE))
    times_ms = {f"tcp_connect_transaction_p{percent}": float(rows[str(percent)]) for percent in (50, 90, 99)}
    assert {name: reading.measurements[name] for name in times_ms} == times_ms
    assert [(each.kind, each.metrics) for each in reading.remarks] == [("closed loop", tuple(times_ms))]
    assert (reading.payload_bytes, reading.invalid_because) == (200 * complete, ())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (with_("Time taken for tests", "1.300"), "ab ran for 2 s, and measured 1.3 s"),
        (with_("Complete requests", "0"), "no TCP connection was answered"),
        (with_("Failed requests", "3"), "3 of "),
        (with_("Document Length", "65"), "got another response"),
        (f"Non-2xx responses:      17\n{REPORT}", "got another response"),
    ],
)
def test_what_it_did_not_measure_is_invalid(text: str, reason: str) -> None:
    (found, *_) = Ab().read(text, 2).invalid_because
    assert reason in found


@pytest.mark.parametrize(
    "text",
    [
        "",
        with_("Time taken for tests", "0.000"),
        with_("Failed requests", "999999999"),
        REPORT.replace("\n50,", "\n51,"),
        re.sub(r"\n50,[\d.]+\n", "\n50,900.000\n", REPORT),
        REPORT + REPORT,
    ],
)
def test_what_is_no_report_or_contradicts_itself_is_refused(text: str) -> None:
    with pytest.raises(InstrumentError):
        Ab().read(text, 2)


@pytest.mark.parametrize(
    ("target", "address"), [("198.18.1.10", "198.18.1.10:8080"), ("2001:2::1", "[2001:2::1]:8080")]
)
def test_the_server_listens_where_ab_connects(target: str, address: str) -> None:
    client = FakeInstance(lambda argv: answer(REPORT))
    server = FakeInstance(lambda argv: answer('using the "epoll" event method'))
    Ab().measure(client, server, target, {"tcp_crr_s": 2})  # type: ignore[arg-type]
    assert f"listen {address};" in str(server.stdins[0])
    ((*argv,),) = client.measured
    assert argv[-1] == f"http://{address}/" and argv[argv.index("-t") + 1] == "2"
    assert argv.index("-t") < argv.index("-n"), "-t alone limits the number of requests"


def test_a_connection_that_fails_is_an_error() -> None:
    client = FakeInstance(lambda argv: answer(code=104, error="apr_socket_recv: Connection reset by peer (104)"))
    server = FakeInstance(lambda argv: answer('using the "epoll" event method'))
    with pytest.raises(CommandFailed, match="reset by peer"):
        Ab().measure(client, server, "198.18.1.10", {"tcp_crr_s": 2})  # type: ignore[arg-type]
