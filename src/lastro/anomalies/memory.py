"""A neighbour that allocates memory, touches every page and frees it, over and over."""

from __future__ import annotations

from lastro.anomalies.base import LEAST_SHARE, Anomaly, Demand, Dose
from lastro.host.cgroups import Resources
from lastro.units import human_bytes

# Arguments: seconds until the end, and the command. A shell exits with 126 or 127 if there is no such command. The
# command runs in the background, so that the trap can end it: on SIGTERM, a plain shell would leave it behind. The trap
# uses `$!`, which the shell sets as it starts the command: a signal could come before another variable is set.
_RESTARTING = """
end=$(($(date +%s) + $1))
shift
trap 'kill $!; exit 143' TERM
while :; do
    "$@" &
    code=0
    wait $! || code=$?
    case $code in 0 | 126 | 127) exit $code ;; esac
    [ "$(date +%s)" -lt "$end" ] || exit 0
    sleep 0.05
done
"""


class Memory(Anomaly):
    name = "memory"
    summary = "allocates, touches and frees memory on every CPU"

    def argv(self, demand: Demand) -> list[str]:
        # stress-ng divides the size among its workers, stress gives it to each of them.
        per_worker = demand.memory_bytes * (demand.n_workers if demand.tool == "stress-ng" else 1)
        size = ["--vm-bytes", f"{per_worker // 1024}K"]
        touch = [] if demand.tool == "stress-ng" else ["--vm-stride", "4096"]
        return [demand.tool, "--vm", str(demand.n_workers), *size, *touch, "--timeout", f"{demand.timeout_s:.0f}"]

    def command(self, demand: Demand) -> list[str]:
        """Return `argv`; for the tool stress, in a shell that restarts it whenever it fails before the time limit.

        Without swap, the kernel kills a worker that exceeds the limit on its memory. stress-ng then starts another
        worker. stress ends with its worker, and without a restart, the anomaly would end, too."""
        argv = self.argv(demand)
        return argv if demand.tool == "stress-ng" else ["sh", "-c", _RESTARTING, "sh", f"{demand.timeout_s:.0f}", *argv]

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        wanted = min(demand.memory_bytes * demand.n_workers, limits.memory_bytes or float("inf"))
        if dose.memory_peak_bytes >= LEAST_SHARE * wanted:
            return None
        return f"the neighbour held {human_bytes(dose.memory_peak_bytes)}, less than half of {human_bytes(wanted)}"
