"""Properties that a user requires of a candidate, as written: 'own-kernel', 'no daemon', 'interfaces >= 8'."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lastro.errors import InputError, did_you_mean
from lastro.shapes import MOST_MEASURED

OF_PLATFORM = (
    "own_kernel", "daemon", "interfaces", "interface_added_ms", "interface_removed_ms", "unprivileged", "packages",
    "image_mib",
)  # fmt: skip
OF_LINK = ("members", "vlan_frame", "tunnel", "seen_by_third")
PROPERTIES = {**dict.fromkeys(OF_PLATFORM, "platform"), **dict.fromkeys(OF_LINK, "attachment")}  # {name: kind of part}
_FORM = re.compile(r"\s*(no\s+|no-)?([\w-]+?)\s*(?:(<=|>=|<|>|≤|≥)\s*(\d+(?:\.\d*)?)\s*(?:ms|MiB)?\s*)?", re.ASCII)
_HINT = "write it as in 'own-kernel', 'no daemon' or 'interfaces >= 8'"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A property that the platform or the attachment must have (`wanted`) or must not have, or a limit on its value.

    With a `limit`, the value must be at least the limit if `at_least`, else at most."""

    name: str
    wanted: bool = True
    limit: float | None = None
    at_least: bool = True

    @property
    def kind(self) -> str:
        """The kind of the part that has the property: "platform" or "attachment"."""
        return PROPERTIES[self.name]

    @property
    def text(self) -> str:
        if self.limit is not None:
            return f"{self.name} {'≥' if self.at_least else '≤'} {self.limit:g}"
        return self.name if self.wanted else f"no {self.name}"

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """Parse a requirement as a user writes it: 'own-kernel', 'no daemon', 'interfaces >= 8'.

        Raises: InputError for any other text, and for a property that no probe determines."""
        if not (match := _FORM.fullmatch(text)) or (match[1] and match[3]):
            raise InputError(f"'{text}' is not a requirement", _HINT)
        name = match[2].replace("-", "_")
        if name not in PROPERTIES:
            raise InputError(f"no probe finds a property '{match[2]}'", did_you_mean(name, PROPERTIES) or _HINT)
        if match[3]:
            if float(match[4]) > MOST_MEASURED:
                raise InputError(f"a limit of '{match[2]}' is above {MOST_MEASURED:g}", _HINT)
            return cls(name, limit=float(match[4]), at_least=match[3] in (">", ">=", "≥"))
        return cls(name, wanted=not match[1])

    @classmethod
    def of(cls, name: str, value: bool | str) -> Requirement:
        """Parse a line of the table [require] or [wish]: `own_kernel = true`, `interfaces = ">= 8"`.

        Raises: InputError as `parse` does."""
        if isinstance(value, bool):
            return cls.parse(name if value else f"no {name}")
        return cls.parse(f"{name} {value}")

    def met_by(self, value: bool | int | float | None, *, is_lower_bound: bool = False) -> bool | None:
        """Return whether the `value` of the property, as a probe found it, meets the requirement; None if unknown.

        A count, or a time in ms, is only the least that the value can be if it `is_lower_bound`."""
        if value is None:
            return None
        if self.limit is None:
            return bool(value) is self.wanted
        if isinstance(value, bool):  # False means a count of zero; True, an unknown count
            return None if value else False
        if self.at_least and value >= self.limit:
            return True
        if is_lower_bound:
            return None
        return False if self.at_least else value <= self.limit
