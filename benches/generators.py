"""The largest rate of the kernel's pktgen against that of trafgen, in turn, on one chain of plain forwarding.

Both send frames of 64 bytes as fast as they can, each for half a second. The chain is that of a trial: the function's
kernel works on other CPUs than the generator.

    python benches/generators.py [TESTBED] [--pairs N] [--json]    TESTBED: the file of a guest, for example"""

from __future__ import annotations

import sys
from contextlib import closing
from functools import partial
from pathlib import Path

from _harness import Ratio, interleaved, show, words
from lastro.app.hosts import testbed
from lastro.host import testbed_file
from lastro.instruments.load_generator import Direction, LoadGenerator, Traffic
from lastro.instruments.pktgen import Pktgen
from lastro.instruments.trafgen import Trafgen
from lastro.results.samples import Outcome
from lastro.scenarios.load import LoadScenario
from lastro.scenarios.load.steering import APART, steer
from lastro.testbed import Testbed

N_PAIRS = 10
_TOO_FAST_FPS, _PROBE_S = 50_000_000, 0.5
_PARTS = {
    "platform": "native", "attachment": "veth-direct", "function": "none", "isolation": "none", "anomaly": "none",
    "instrument": "pktgen",
}  # fmt: skip
_CONFIG = {setting.name: setting.default for setting in LoadScenario.settings} | _PARTS


def ratio(bed: Testbed, n_pairs: int) -> Ratio:
    with closing(LoadScenario(bed)) as scenario, scenario.standing(_CONFIG, {}, Outcome()) as standing:
        chain = standing.chain
        steer(chain, APART)
        direction, kernel, tool = Direction(chain.source, chain.sink, chain.path.sink), Pktgen(), Trafgen()

        def sent_fps(generator: LoadGenerator) -> float:
            return generator.offer(direction, Traffic.of("64"), _TOO_FAST_FPS, _PROBE_S).rate_fps

        with kernel.receiving(direction):  # one receiver and one chain for both
            ours, raw = partial(sent_fps, kernel), partial(sent_fps, tool)
            return interleaved("frames sent by pktgen and by trafgen", "≥ 3", ours, raw, n_pairs, unit="frames/s")


if __name__ == "__main__":
    files = [word for word in words() if not word.isdigit()]
    place = testbed_file.load(Path(files[0])) if files else None
    pairs = int(sys.argv[sys.argv.index("--pairs") + 1]) if "--pairs" in sys.argv else N_PAIRS
    needs = partial(LoadScenario.image_needs, configs=[_CONFIG])
    with testbed("benches", wait=True, needs=needs, file=place) as bed:
        show([ratio(bed, pairs)])
