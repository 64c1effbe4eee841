"""A UDP load by iperf version 2, the tool of Trindade (2018, chapter 6): 1470-byte datagrams at a nominal rate.

It reads the client's report, which includes the server's report, in bytes and bits (`-f b`): the CSV (`-y C`) omits the
server's counts, and other formats round to three digits. Written for 2.0 and 2.1; source: iperf(1)."""

from __future__ import annotations

import re

from lastro.errors import InstrumentError
from lastro.instruments.base import Watch
from lastro.instruments.udp_load import OfferedLoad, UdpFlow, UdpLoad
from lastro.platforms.base import Instance

_PORT = 5001
_PATIENCE_S = 15.0  # the client asks ten times for the server's report
_NUMBER = r"(\d{1,15}(?:\.\d{1,9})?)"
_TOTAL = re.compile(
    rf"^\[ *\d+\] +{_NUMBER}- *{_NUMBER} sec +(\d{{1,18}}) Bytes +(\d{{1,18}}) bits/sec(.*)$", re.ASCII | re.MULTILINE
)
_RECEIVED = re.compile(rf" +{_NUMBER} ms +(\d{{1,15}})/ *(\d{{1,15}}) \(.*", re.ASCII)
_ROUNDING = 0.02


class Iperf2Udp(UdpLoad):
    name = "iperf2-udp"
    summary = "a UDP load at a nominal rate by iperf version 2: offered and received rate, loss and jitter"
    tool = "iperf"
    packages = ("iperf",)
    version_argv = ("iperf", "--version")

    def flow(self, client: Instance, server: Instance, target: str, offer: OfferedLoad, watch: Watch) -> UdpFlow:
        listener = ["iperf", "--server", "--udp", "--parallel", "1", "--port", str(_PORT)]
        with server.during(listener, "Server listening", _PATIENCE_S):
            argv = ["iperf", "--client", target, "--udp", "--port", str(_PORT), "--time", f"{offer.duration_s:g}"]
            argv += ["--bandwidth", f"{offer.rate_bps:.0f}", "--len", str(offer.datagram_bytes), "--format", "b"]
            done = client.measure(argv, timeout_s=offer.duration_s + _PATIENCE_S, check=False, watch=watch).done
        done.require_success(argv)
        return self.read(done.text)

    def read(self, text: str) -> UdpFlow:
        """Parse the client's report. Raises: InstrumentError when it is not a report, or contradicts itself."""
        client_text, heading, server_text = text.partition("Server Report:")
        if not heading:
            raise InstrumentError(f"iperf printed no server report: …{text[-80:]!r}")
        sent_s, sent_bytes, _ = _total("client", client_text)
        received_s, received_bytes, rest = _total("server", server_text)
        match = _RECEIVED.fullmatch(rest)
        if not match:
            raise InstrumentError(f"iperf's server report has no jitter and loss: {rest[:80]!r}")
        lost, datagrams = int(match[2]), int(match[3])
        if lost > datagrams:
            raise InstrumentError(f"iperf reports {lost} lost datagrams of {datagrams}")
        return UdpFlow(sent_bytes, sent_s, received_bytes, received_s, float(match[1]))


def _total(side: str, text: str) -> tuple[float, int, str]:
    """Return (seconds, bytes, rest of the line) of the line of totals in a report. `side` is "client" or "server".

    Raises: InstrumentError if there is not exactly one such line, or if its rate contradicts its seconds and bytes."""
    totals = _TOTAL.findall(text)
    if len(totals) != 1:
        raise InstrumentError(f"iperf printed {len(totals)} totals of its {side}: …{text[-80:]!r}")
    begin_s, end_s, n_bytes, rate_bps, rest = totals[0]
    seconds = float(end_s) - float(begin_s)
    if seconds <= 0 or abs(int(rate_bps) * seconds - 8 * int(n_bytes)) > 8 * _ROUNDING * int(n_bytes) + 8:
        raise InstrumentError(f"iperf's {side} counts {n_bytes} bytes in {seconds:g} s but reports {rate_bps} bits/s")
    return seconds, int(n_bytes), rest
