"""A strict reader of the text formats of Prometheus and OpenMetrics: it refuses what a scraper may refuse."""

from __future__ import annotations

import re
from dataclasses import dataclass

_VALUE = r'"((?:[^"\\\n]|\\[\\"n])*)"'
_SAMPLE = re.compile(rf"([a-zA-Z_:][\w:]*)\{{((?:[a-zA-Z_]\w*={_VALUE},?)*)\}} (\S+)(?: (\S+))?", re.ASCII)
_LABEL = re.compile(rf"([a-zA-Z_]\w*)={_VALUE}(?:,(?!$)|$)", re.ASCII)
_ESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True)
class Sample:
    name: str
    labels: dict[str, str]
    value: float
    time: float | None


def read(text: str, *, openmetrics: bool) -> list[Sample]:
    """Return all samples. Each family has its HELP and TYPE first, and no two samples are those of one moment."""
    *lines, last = text.split("\n")
    assert last == ""
    if openmetrics:
        assert lines.pop() == "# EOF"
    samples: list[Sample] = []
    seen, families = dict[tuple[str, str], float | None](), list[tuple[str, str]]()
    for number, line in enumerate(lines):
        if line.startswith("# HELP "):
            assert lines[number + 1].startswith(f"# TYPE {line.split(' ')[2]} "), line
        elif line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert family not in [name for name, _ in families], line
            assert kind in ("gauge", "info")[: 1 + openmetrics], line
            families.append((family, kind))
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            name, labels, _, value, time = match.groups()
            family, kind = families[-1]
            assert name == family + ("_info" if kind == "info" else ""), line
            assert openmetrics == (time is not None), line
            moment = None if time is None else float(time)
            key = (name, str(sorted(_labels(labels).items())))
            before = seen.get(key)
            assert key not in seen or (before is not None and moment is not None and before < moment), line
            seen[key] = moment
            samples.append(Sample(name, _labels(labels), float(value), moment))
    return samples


def _labels(text: str) -> dict[str, str]:
    found = _LABEL.findall(text)
    assert ",".join(f'{name}="{value}"' for name, value in found) == text
    assert len({name for name, _ in found}) == len(found), text
    return {name: re.sub(r"\\.", lambda match: _ESCAPED[match[0]], value) for name, value in found}
