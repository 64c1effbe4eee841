"""What the kernel of a source says of its first hop, for generators that write whole frames."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lastro.host.base import Completed

from .recording import answer

_SHOWN = {
    "route": [{"dst": "198.18.1.10", "gateway": "198.18.0.1", "dev": "out0", "prefsrc": "198.18.0.10"}],
    "neigh": [{"dst": "198.18.0.1", "lladdr": "02:00:00:00:00:01"}],
    "link": [{"ifname": "out0", "address": "02:00:00:00:00:0a"}],
}


def answered_as_source(argv: Sequence[str]) -> Completed | None:
    return answer(json.dumps(_SHOWN[argv[2]])) if argv[0] == "ip" else None
