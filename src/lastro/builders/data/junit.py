"""JUnit XML for CI systems: the elements that all documents share. A testsuite holds testcases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

# Characters that XML 1.0 does not allow, not even escaped (W3C, Extensible Markup Language 1.0, production 2).
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def new_root(name: str) -> Element:
    return Element("testsuites", name=_xml(name))


def add_suite(root: Element, name: str, properties: Sequence[tuple[str, str]] = ()) -> Element:
    """Add a testsuite to `root` and return it; `properties` are (name, value)."""
    suite = ElementTree.SubElement(root, "testsuite", name=_xml(name), errors="0", time="0")
    if properties:
        holder = ElementTree.SubElement(suite, "properties")
        for key, value in properties:
            ElementTree.SubElement(holder, "property", name=key, value=_xml(value))
    return suite


def add_case(suite: Element, name: str, group: str) -> Element:
    """Add a testcase to a testsuite and return it; CI systems show it under `group`, its `classname`."""
    return ElementTree.SubElement(suite, "testcase", name=_xml(name), classname=_xml(group), time="0")


def add_failure(case: Element, kind: str, message: str, details: str = "") -> None:
    ElementTree.SubElement(case, "failure", message=_xml(message), type=kind).text = _xml(details) or None


def add_skip(case: Element, why: str) -> None:
    ElementTree.SubElement(case, "skipped", message=_xml(why))


def add_output(case: Element, text: str) -> None:
    ElementTree.SubElement(case, "system-out").text = _xml(text)


def xml_file(root: Element) -> bytes:
    """Set the counts of tests, failures and skipped tests in `root` and its testsuites; return the XML in UTF-8."""
    for element in (root, *root):
        for number, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
            element.set(number, str(len(element.findall(f".//{tag}"))))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _xml(text: str) -> str:
    """Replace each character that XML does not allow by U+FFFD."""
    return _NO_XML.sub("\ufffd", text)
