"""CPU time of Lastro's own process while a trial measures. Target: under 1 % of one CPU."""

from __future__ import annotations

from lastro.app.hosts import testbed
from lastro.scenarios.chain import ChainScenario


def rows(seconds: float = 5.0) -> list[str]:
    with testbed("benches", wait=True) as bed:
        scenario = ChainScenario(bed)
        config = {setting.name: setting.default for setting in scenario.settings}
        config |= {"tcp_s": seconds, "udp_s": seconds, "ping_s": seconds, "settle_s": 0, "platform": "runc"}
        config |= {"attachment": "veth-bridge", "isolation": "none", "function": "firewall", "anomaly": "none"}
        try:
            outcome = scenario.run(config, {})
        finally:
            scenario.close()
    percent, elapsed_s = outcome.notes["host"]["lastro_cpu_percent"], outcome.notes["elapsed_s"]
    return [f"| Lastro's own CPU time during {elapsed_s:.0f} s of measuring | {percent:.2f} % of one CPU | < 1 % |"]


if __name__ == "__main__":
    print("\n".join(rows()))
