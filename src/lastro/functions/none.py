"""No function: plain forwarding, by the kernel or another implementation, the upper bound for every function."""

from __future__ import annotations

from lastro.functions import _xdp
from lastro.functions.base import ForwardingPath, Function
from lastro.requirements import Requirements


class Forwarding(Function):
    name = "none"
    summary = "plain forwarding, the upper bound for every function"
    hook = "forward"
    requirements = Requirements(optional_packages=_xdp.HOST_PACKAGES)

    def click(self, path: ForwardingPath) -> str:
        return "input[0] -> [0]output; input[1] -> [1]output;"
