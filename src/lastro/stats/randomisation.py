"""Randomisation tests: the design itself is the reference, and no distribution of the noise is assumed.

The order of the treatments inside each block was drawn at random. If no treatment has any effect, the values in time
would have been the same in every other order that could have been drawn, however they are distributed, and however
similar neighbours in time are. So the statistic of the order that was drawn is compared with those of the others: p is
the fraction of orders that give at least as much. The statistic is F of all treatments, adjusted for blocks; for two
treatments that is the square of the paired t.

Sources: Fisher, The Design of Experiments (1935), section 21; Lehmann and Romano, Testing Statistical Hypotheses (3rd
ed., 2005), section 15.2; Phipson and Smyth, Statistical Applications in Genetics and Molecular Biology 9 (2010),
article 39, for orders drawn at random, of which the true one is always one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lastro.stats._block_columns import BlockColumns
    from lastro.stats._projections import Floats

    Orders = NDArray[np.uint16]

MOST_ORDERS = 2**16  # with more of them, a sample is drawn
_MOST_DRAWS, _LEAST_DRAWS = 9_999, 1_999
_MOST_PLACED = 4_000_000  # values in all draws together, where more than the least are drawn
_CHUNK = 1_000_000
_SEED = 1935


@dataclass(frozen=True, slots=True)
class Randomisation:
    """The test of no effect of any treatment: `p` is the fraction of `orders` with at least the F of the true order.

    `exact`: these are all orders; otherwise they are a sample, with a fixed seed, and the true one. `least` is the
    least p that any order could have: p depends on the values, and few blocks have few orders. `f` is F with its
    degrees of freedom, and `p_of_f` its p if the noise is normal, equal and independent; both are None where nothing
    varies but the treatments."""

    f: float | None
    df1: int
    df2: int
    p_of_f: float | None
    p: float
    least: float
    orders: int
    exact: bool

    def can_reject(self, alpha: float) -> bool:
        """Return whether p could have been below alpha at all."""
        return self.least < alpha


def randomisation_test(cells: Mapping[Any, Mapping[int, float]], *, log: bool = False) -> Randomisation | None:
    """Test whether any of the cells, each {block: value}, differs; with `log`, on logarithms of the values.

    Trials without a valid value are not there: values are exchanged among those that each block has. So the test is
    conditional on which trials are valid, as if that did not depend on the treatment.

    None where no order differs from another: with one cell, one block, or values that never vary within blocks."""
    from scipy.special import fdtrc

    blocks = _Blocks.of(cells, log)
    df1, df2 = blocks.freedom
    if df1 == 0 or df2 <= 0 or blocks.within == 0:
        return None
    rounding = 1e-9 * blocks.within  # orders with equal sums differ by that
    found, exact = blocks.of_orders()
    true = float(blocks.explained(blocks.totals)[0])
    rest = blocks.within - true
    f = true / df1 / (rest / df2) if rest > rounding else None
    return Randomisation(
        f=f,
        df1=df1,
        df2=df2,
        p_of_f=None if f is None else float(fdtrc(df1, df2, f)),
        p=float((found >= true - rounding).mean()),
        least=float((found >= found.max() - rounding).mean()),
        orders=len(found),
        exact=exact,
    )


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The values of each block without its mean, and the cells that they belong to.

    `totals` are the sums of the cells, as a row. The sum of squares that the treatments explain beside the blocks is
    that of the totals over the `columns` of the blocks, and at most `within`, which is the same for all orders."""

    values: tuple[Floats, ...]
    cells: tuple[list[int], ...]
    totals: Floats
    columns: BlockColumns
    within: float

    @classmethod
    def of(cls, cells: Mapping[Any, Mapping[int, float]], log: bool) -> _Blocks:
        import numpy as np

        from lastro.stats._block_columns import BlockColumns
        from lastro.stats._projections import CentredValues, varying

        by_block: dict[int, list[int]] = {}
        for at, cell in enumerate(cells.values()):
            for block in cell:
                by_block.setdefault(block, []).append(at)
        own = list(cells.values())
        places = [(at, block) for block, found in by_block.items() for at in found]
        y = CentredValues.of([math.log(own[at][block]) if log else own[at][block] for at, block in places]).y
        ends = np.cumsum([len(found) for found in by_block.values()])
        values = tuple(part - part.mean() for part in np.split(y, ends[:-1]))
        totals, table = np.zeros((1, len(own))), np.zeros((len(own), len(by_block)))
        for at, (found, part) in enumerate(zip(by_block.values(), values, strict=True)):
            totals[0, found] += part
            table[found, at] = 1
        within = varying(np.concatenate(values))
        return cls(values, tuple(by_block.values()), totals, BlockColumns.of(table), within)

    @property
    def freedom(self) -> tuple[int, int]:
        """The degrees of freedom of the treatments, and those that they and the blocks leave."""
        n_cells, n_blocks = self.columns.table.shape
        df1 = n_cells - n_blocks + self.columns.whiten.shape[1]
        return df1, sum(map(len, self.values)) - n_blocks - df1

    def explained(self, totals: Floats) -> Floats:
        import numpy as np

        alone = np.sum(totals**2 / self.columns.counts, axis=1)
        return np.asarray(alone + np.sum((totals @ self.columns.centre) ** 2, axis=1))

    def of_orders(self) -> tuple[Floats, bool]:
        """Return what the treatments explain in every order, or in a sample of them and the true one; true if all."""
        import numpy as np

        if math.prod(math.factorial(len(part)) for part in self.values) <= MOST_ORDERS:
            return self.explained(self._all()), True
        return np.concatenate([self.explained(totals) for totals in (self.totals, *self._drawn())]), False

    def _all(self) -> Floats:
        import numpy as np

        totals = np.zeros_like(self.totals)
        for cells, part in zip(self.cells, self.values, strict=True):
            orders = part[list(permutations(range(len(part))))]
            own = np.zeros((len(orders), totals.shape[1]))
            own[:, cells] = orders
            totals = (totals[:, None, :] + own).reshape(-1, totals.shape[1])
        return totals

    def _drawn(self) -> Iterator[Floats]:
        import numpy as np

        for chunk in _orders(tuple(map(len, self.values))):
            totals = np.zeros((len(chunk[0]), self.totals.shape[1]))
            for cells, part, orders in zip(self.cells, self.values, chunk, strict=True):
                totals[:, cells] += part[orders]
            yield totals


@lru_cache(maxsize=4)
def _orders(sizes: tuple[int, ...]) -> tuple[tuple[Orders, ...], ...]:
    """Return orders of blocks of these sizes, drawn at random: chunks, which have an array of draws for each block.

    They are the same in every process. Most metrics of a campaign have blocks of the same sizes."""
    import numpy as np

    rng, n, chunks = np.random.default_rng(_SEED), sum(sizes), []
    left = max(_LEAST_DRAWS, min(_MOST_DRAWS, _MOST_PLACED // n))
    while left:
        draws = min(left, max(1, _CHUNK // n))
        unordered = [np.broadcast_to(np.arange(size, dtype=np.uint16), (draws, size)) for size in sizes]
        chunks.append(tuple(rng.permuted(places, axis=1) for places in unordered))
        left -= draws
    return tuple(chunks)
