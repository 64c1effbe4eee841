"""`python -m lastro` is the same as `lastro`."""

from lastro.cli import main

raise SystemExit(main())
