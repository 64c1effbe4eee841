"""No function: plain forwarding by the kernel, the upper bound for every function."""

from __future__ import annotations

from lastro.functions.base import ForwardingPath, Function


class Forwarding(Function):
    name = "none"
    summary = "plain forwarding, the upper bound for every function"
    hook = "forward"

    def click(self, path: ForwardingPath) -> str:
        return "input[0] -> [0]output; input[1] -> [1]output;"
