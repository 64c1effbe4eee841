"""A property of a part, with how it was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec

from lastro.errors import LastroError
from lastro.host.shell import quoted
from lastro.platforms.base import Instance, Port
from lastro.units import significant

_P = ParamSpec("_P")


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a part. `value` is a count (int), a time in ms (float), a yes or no, or None if it is not known.

    If `name` ends with '_mib', `value` is a size in MiB. `how` says how the value was found, or why it is not known.
    With `at_least`, the true value may be larger."""

    name: str
    value: bool | int | float | None
    how: str
    at_least: bool = False

    @property
    def text(self) -> str:
        if self.value is None:
            return "not known"
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        if isinstance(self.value, float):
            return f"{significant(self.value, 2)} ms"
        text = f"{self.value} MiB" if self.name.endswith("_mib") else str(self.value)
        return f"at least {text}" if self.at_least else text


def answering(instance: Instance, ports: Sequence[Port], within_s: int) -> list[Port]:
    """Return those of `ports` that answer a ping from the instance in time. All are tried at the same time."""
    limit_s, *targets = quoted(within_s, *(port.ip for port in ports))
    ping = f"(ping -n -q -c 1 -w {limit_s} $to >/dev/null 2>&1 && echo $to) &"
    script = f"for to in {' '.join(targets)}; do {ping} done; wait\n"
    answered = set(instance.run(["sh"], stdin=script, check=False).text.split())
    return [port for port in ports if port.ip in answered]


def unknown(names: Sequence[str], why: str) -> list[Property]:
    """Return a property without a value for each name, all for the reason `why`."""
    return [Property(name, None, why) for name in names]


def unless_failed(name: str) -> Callable[[Callable[_P, Property]], Callable[_P, Property]]:
    """Decorate a function that finds the property `name`, which is not known if the function raises an error."""

    def decorated(find: Callable[_P, Property]) -> Callable[_P, Property]:
        @wraps(find)
        def found(*args: _P.args, **kwargs: _P.kwargs) -> Property:
            try:
                return find(*args, **kwargs)
            except (LastroError, OSError) as error:
                return Property(name, None, str(error))

        return found

    return decorated
