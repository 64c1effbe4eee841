"""The test plan of a closed load in JMeter's format, which an editor and JMeter's GUI can open (`jmeter -t FILE`).

A thread group represents the clients of one proxy; its loops are the requests of each client. The body of one request
in a hundred is hashed, outside the measured time. Source: JMeter 5.6 component reference. Misspelt names in the format,
such as "Asserion.test_strings", are JMeter's."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit
from xml.sax.saxutils import escape, quoteattr

from lastro.instruments.http_load import ClosedLoad, Endpoint, clients_per_proxy

WARM_UP, REQUEST, HASHED = "warm-up", "request", "request, body hashed"
_HASHED_OF = 100


def group_name(proxy: Endpoint | None, warm_up: bool = False) -> str:
    """Return the name of the thread group of a proxy's clients, or without a proxy, of the server's clients.

    JMeter begins the names of the group's threads with it."""
    return f"{'warm-up' if warm_up else 'clients'} {f'of {proxy}' if proxy else 'straight'}"


def clients_by_proxy(load: ClosedLoad) -> list[tuple[Endpoint | None, int]]:
    """Return (proxy, number of its clients) for each proxy that has clients.

    Without proxies, return a single pair, with None in place of a proxy: the clients request directly from the
    server."""
    proxies: Sequence[Endpoint | None] = load.proxies or (None,)
    return [(proxy, clients) for proxy, clients in zip(proxies, clients_per_proxy(load), strict=True) if clients]


def test_plan(load: ClosedLoad) -> str:
    """Return the test plan as XML: a thread group for each proxy, and before it one for the warm-up, if any."""
    title = f"{load.clients} clients, {load.requests} requests each, {len(load.proxies) or 'no'} proxies"
    parts = [_defaults(load), *_assertions(load)]
    for proxy, clients in clients_by_proxy(load):
        if load.warm_up:
            sampler = _sampler(WARM_UP, load.keep_alive)
            parts.append(_group("SetupThreadGroup", proxy, clients, load.warm_up, True, [sampler]))
        parts.append(_group("ThreadGroup", proxy, clients, 1, False, _requests(load)))
    plan = _node("TestPlan", title, [_bool("TestPlan.serialize_threadgroups", False)], parts)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<jmeterTestPlan version="1.2" properties="5.0" jmeter="5.6.3">\n'
    return f"{head}{_indented(_tree([plan]))}\n</jmeterTestPlan>\n"


def _requests(load: ClosedLoad) -> list[str]:
    """Return the loops of one client's requests, as XML elements: rounds of about a hundred requests.

    Each round ends with a request whose body is hashed. Requests that do not fill a round are sent first."""
    rounds = max(1, load.requests // _HASHED_OF)
    plain, remainder = load.requests // rounds - 1, load.requests % rounds
    request = _sampler(REQUEST, load.keep_alive)
    md5 = [_text("MD5HexAssertion.size", load.page.md5)]
    is_right = _node("MD5HexAssertion", "its hash is right", md5, gui="MD5HexAssertionGUI")
    hashed = _sampler(HASHED, load.keep_alive, [is_right])
    inner = [_loop(f"{plain} requests", plain, [request])] if plain else []
    first = [_loop(f"{remainder} requests before", remainder, [request])] if remainder else []
    return [*first, _loop(f"{rounds} times", rounds, [*inner, hashed])]


def _defaults(load: ClosedLoad) -> str:
    url = urlsplit(load.page.url)
    path = url.path + (f"?{url.query}" if url.query else "")
    timeout_ms = str(round(1000 * load.timeout_s))
    lines = [
        _text("HTTPSampler.protocol", url.scheme),
        _text("HTTPSampler.domain", url.hostname or ""),
        _text("HTTPSampler.port", str(url.port or "")),
        _text("HTTPSampler.path", path or "/"),
        _text("HTTPSampler.implementation", "HttpClient4"),
        _text("HTTPSampler.connect_timeout", timeout_ms),
        _text("HTTPSampler.response_timeout", timeout_ms),
    ]
    return _node("ConfigTestElement", "the page", lines, gui="HttpDefaultsGui")


def _assertions(load: ClosedLoad) -> list[str]:
    status = [
        '<collectionProp name="Asserion.test_strings"><stringProp name="status">200</stringProp></collectionProp>',
        _text("Assertion.test_field", "Assertion.response_code"),
        _int("Assertion.test_type", 8),  # equals
    ]
    length = [
        _text("Assertion.test_field", "SizeAssertion.response_data"),
        _text("SizeAssertion.size", str(load.page.length_bytes)),
        _int("SizeAssertion.operator", 1),  # equals
    ]
    return [
        _node("ResponseAssertion", "the status is 200", status, gui="AssertionGui"),
        _node("SizeAssertion", f"the body has {load.page.length_bytes} bytes", length),
    ]


def _group(kind: str, proxy: Endpoint | None, clients: int, loops: int, warm_up: bool, parts: list[str]) -> str:
    proxied = []
    if proxy:
        way = [_text("HTTPSampler.proxyHost", proxy.address), _text("HTTPSampler.proxyPort", str(proxy.port))]
        proxied = [_node("ConfigTestElement", f"by proxy {proxy}", way, gui="HttpDefaultsGui")]
    lines = [
        _int("ThreadGroup.num_threads", clients),
        _int("ThreadGroup.ramp_time", 0),
        _bool("ThreadGroup.same_user_on_next_iteration", True),  # else it would close its connection
        _text("ThreadGroup.on_sample_error", "continue"),
        '<elementProp name="ThreadGroup.main_controller" elementType="LoopController" guiclass="LoopControlPanel"'
        f' testclass="LoopController">\n{_indented(_loops(loops, again=False))}\n</elementProp>',
    ]
    return _node(kind, group_name(proxy, warm_up), lines, [*proxied, *parts])


def _loop(name: str, loops: int, parts: list[str]) -> str:
    return _node("LoopController", name, [_loops(loops, again=True)], parts, gui="LoopControlPanel")


def _loops(loops: int, *, again: bool) -> str:
    """Return the properties of a loop. With `again`, JMeter's default, it restarts whenever the enclosing loop does."""
    return f"{_int('LoopController.loops', loops)}\n{_bool('LoopController.continue_forever', again)}"


def _sampler(name: str, keep_alive: bool, parts: Sequence[str] = ()) -> str:
    lines = [
        _text("HTTPSampler.method", "GET"),
        _bool("HTTPSampler.use_keepalive", keep_alive),
        _bool("HTTPSampler.follow_redirects", False),
        '<elementProp name="HTTPsampler.Arguments" elementType="Arguments">\n'
        '  <collectionProp name="Arguments.arguments"/>\n</elementProp>',
    ]
    return _node("HTTPSamplerProxy", name, lines, parts, gui="HttpTestSampleGui")


def _node(kind: str, name: str, lines: Sequence[str], parts: Sequence[str] = (), gui: str | None = None) -> str:
    """Return the element `kind` with its properties `lines`, and after it the tree of the elements below it."""
    head = f'<{kind} guiclass="{gui or kind + "Gui"}" testclass="{kind}" testname={quoteattr(name)}>'
    return "\n".join([head, *map(_indented, lines), f"</{kind}>", _tree(parts)])


def _tree(parts: Sequence[str]) -> str:
    return "\n".join(["<hashTree>", *map(_indented, parts), "</hashTree>"]) if parts else "<hashTree/>"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _text(name: str, value: str) -> str:
    return f'<stringProp name="{name}">{escape(value)}</stringProp>'


def _int(name: str, value: int) -> str:
    return f'<intProp name="{name}">{value}</intProp>'


def _bool(name: str, value: bool) -> str:
    return f'<boolProp name="{name}">{str(value).lower()}</boolProp>'
