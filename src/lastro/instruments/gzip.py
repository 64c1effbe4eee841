"""Compression of a file by gzip, timed on the host's clock: the work of the processor and of the file system.

The file is the same everywhere: a pattern of words drawn from a fixed seed, repeated. gzip looks back only 32 KiB, less
than the length of the pattern, so its work is the same for each repetition."""

from __future__ import annotations

import random
import zlib
from bisect import bisect
from functools import cache
from itertools import accumulate

from lastro.errors import InstrumentError
from lastro.instruments import base
from lastro.instruments.disk_workload import NO, YES, with_caches
from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading
from lastro.study.model import Setting
from lastro.units import parse_size_bytes

_PATTERN_BYTES = 1 << 20
_SOURCE, _TARGET = f"{base.WORK_DIR}/lastro-gzip", f"{base.WORK_DIR}/lastro-gzip.gz"
_SPEED_BPS = 3e7  # of an ordinary core at level 6
_FILL_BPS = 1.5e9


@cache
def pattern() -> bytes:
    """Return a text that is always the same: words of random letters, whose frequency falls by Zipf's law.

    All draws are by `random()`, the only method whose sequence Python guarantees."""
    draw = random.Random(2019).random
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(letters[int(26 * draw() ** 2)] for _ in range(2 + int(8 * draw()))) for _ in range(4096)]
    cumulative = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    positions = (bisect(cumulative, draw() * cumulative[-1], hi=len(words) - 1) for _ in range(_PATTERN_BYTES // 3))
    return " ".join(words[position] for position in positions).encode()[:_PATTERN_BYTES]


@cache
def checksum(size: int) -> int:
    """Return the CRC-32 of a file of this size that repeats the pattern."""
    block, crc = pattern(), 0
    for _ in range(size // _PATTERN_BYTES):
        crc = zlib.crc32(block, crc)
    return zlib.crc32(block[: size % _PATTERN_BYTES], crc)


_SIZE = Setting("size", "256M", "size of the file", check=parse_size_bytes, by_profile=True)
_LEVEL = Setting("level", 6, "compression level of gzip", 1, 9)
_SYNCED = Setting("synced", NO, "measure until the compressed file is on the disk", choices=(NO, YES))


class Gzip(base.Workload):
    name = "gzip"
    summary = "compression of a file of reproducible text by gzip, timed on the host's clock"
    packages = ("gzip",)
    version_argv = ("gzip", "--version")
    by_host_clock = frozenset({base.TIME_HOST.name, "gzip_rate", "gzip_ratio"})
    past_caches = frozenset({"gzip_ratio"})
    options = (_SIZE, _LEVEL, _SYNCED)
    short = {"size": "1M"}
    metrics = (
        Metric("gzip_rate", "MiB/s", "higher", "bytes compressed per second of the host's clock"),
        Metric("gzip_ratio", "1", "higher", "size of the file divided by its compressed size: the same everywhere"),
    )

    @property
    def size(self) -> int:
        return parse_size_bytes(_SIZE.of(self.chosen))

    def argv(self) -> list[str]:
        synced = f" && sync {_TARGET}" if _SYNCED.of(self.chosen) == YES else ""
        return ["sh", "-c", f"gzip -{_LEVEL.of(self.chosen)} -n -c {_SOURCE} > {_TARGET}{synced}"]

    def prepare(self, instance: Instance) -> None:
        """Make the file in the instance from the pattern, wait until it is on the disk, and compute its checksum."""
        if not self.size:
            raise InstrumentError("a file of 0 bytes takes no time to compress", "choose another size")
        script = (
            f"set -e; cat > {_SOURCE}.1; "
            f"n=$(({self.size} / {_PATTERN_BYTES} + 1)); "
            f"while [ $n -gt 0 ]; do cat {_SOURCE}.1; n=$((n - 1)); done | head -c {self.size} > {_SOURCE}; "
            f"rm {_SOURCE}.1; sync {_SOURCE}"
        )
        checksum(self.size)
        argv = ["sh", "-c", script]
        done = instance.run(argv, stdin=pattern(), timeout_s=120 + self.size / 1e6, check=False)
        if done.returncode != 0:
            raise base.failure(instance, argv, done, "making the file")

    def run(self, instance: Instance, limit_s: float, watch: base.Watch = base.UNWATCHED) -> Reading:
        """Compress the file, then remove both files; otherwise cached data would be written during the next trial."""
        timed = base.run_timed(instance, self.argv(), limit_s, watch=watch, name=self.name)
        script = f"stat -c %s {_TARGET}; tail -c 8 {_TARGET} | od -An -v -tu1; rm -f {_SOURCE} {_TARGET}"
        reading = self.read_result(timed.host_s, instance.run(["sh", "-c", script]).text)
        reading = base.with_host_time(reading, timed, "gzip_rate")
        return with_caches(reading, self.size, False, instance, unaffected=self.past_caches)

    def read_result(self, host_s: float | None, output: str) -> Reading:
        """Return the rate and the ratio. The reading is invalid if gzip did not compress the whole file correctly.

        `output` has the size of the compressed file, and its last eight bytes as numbers. They contain the CRC-32 and
        the length of the original (RFC 1952, section 2.3.1). Raises: InstrumentError for other output."""
        try:
            compressed, *last_bytes = (int(word) for word in output.split())
            trailer = bytes(last_bytes)
        except ValueError:
            raise InstrumentError(f"gzip's result cannot be read: {output[:80]!r}") from None
        if len(trailer) != 8:
            raise InstrumentError(f"gzip's result has no trailer: {output[:80]!r}")
        base.positive("the compressed size", compressed)
        crc, length = int.from_bytes(trailer[:4], "little"), int.from_bytes(trailer[4:], "little")
        reasons: tuple[str, ...] = ()
        if length != self.size % 2**32 or crc != checksum(self.size):
            reasons = ("gzip did not compress the file that was made",)
        values = {"gzip_ratio": self.size / compressed}
        if host_s is not None:
            values |= {base.TIME_HOST.name: host_s, "gzip_rate": self.size / 2**20 / host_s}
        return Reading(values, invalid_because=reasons)

    def expected_s(self, cpus: float, slowdown: float) -> float:
        return self.size * (slowdown / _SPEED_BPS + 1 / _FILL_BPS) + 0.2
