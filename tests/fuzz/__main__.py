"""Fuzz one reader, or give it one input again.

tools/fuzz TARGET [--minutes N] [--seed N]
tools/fuzz TARGET FILE"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from .running import fuzz
from .targets import TARGETS

KEPT = Path("build/fuzz")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/fuzz", description="Fuzz a reader of what others wrote.")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("file", type=Path, nargs="?", help="an input that failed: read it again, with its traceback")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default: 1)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="repeats a run")
    args = parser.parse_args()
    target = TARGETS[args.target]
    if args.file:
        target.check(args.file.read_bytes())
        print("read or refused, as it should be")
        return 0
    print(f"seed {args.seed}", flush=True)
    found = fuzz(target, target.seeds(args.target), 60 * args.minutes, args.seed, KEPT / args.target)
    print(f"{found.n_inputs} inputs, {len(found.failures)} different failures")
    for file, trace in zip(found.failures.values(), found.traces, strict=True):
        print(f"\n{trace.rstrip()}\nagain: tools/fuzz {args.target} {file}")
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
