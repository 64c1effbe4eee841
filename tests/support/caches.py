"""The last-level cache of another host, where a test is of what is planned by it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lastro.host import processors

LARGE = 260 << 20  # of a large server: STREAM's arrays are four times as long


@contextmanager
def cache_of(n_bytes: int) -> Iterator[None]:
    """Plans made in the block are for a host whose CPUs have so much."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processors, "last_level_cache_bytes", lambda host, cpuset: n_bytes)
        processors.local_cache_bytes.cache_clear()
        yield
    processors.local_cache_bytes.cache_clear()
