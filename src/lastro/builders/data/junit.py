"""JUnit XML for CI systems: the elements that all documents share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

# Characters that XML 1.0 does not allow, not even escaped (W3C, Extensible Markup Language 1.0, production 2).
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def suites(name: str) -> Element:
    return Element("testsuites", name=_xml(name))


def suite(root: Element, name: str, properties: Sequence[tuple[str, str]] = ()) -> Element:
    made = ElementTree.SubElement(root, "testsuite", name=_xml(name), errors="0", time="0")
    holder = ElementTree.SubElement(made, "properties") if properties else made
    for key, value in properties:
        ElementTree.SubElement(holder, "property", name=key, value=_xml(value))
    return made


def case(inside: Element, name: str, group: str) -> Element:
    return ElementTree.SubElement(inside, "testcase", name=_xml(name), classname=_xml(group), time="0")


def failed(inside: Element, kind: str, message: str, details: str = "") -> None:
    ElementTree.SubElement(inside, "failure", message=_xml(message), type=kind).text = _xml(details) or None


def skipped(inside: Element, why: str) -> None:
    ElementTree.SubElement(inside, "skipped", message=_xml(why))


def told(inside: Element, text: str) -> None:
    ElementTree.SubElement(inside, "system-out").text = _xml(text)


def file_of(root: Element) -> bytes:
    """Return the file, in UTF-8, with the numbers of tests, failures and skipped tests."""
    for element in (root, *root):
        for number, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
            element.set(number, str(len(element.findall(f".//{tag}"))))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
