"""Several functions in a row: levels, addresses, rules and counters of each, and what cannot be in a row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import jsonschema
import pytest

from lastro.app.provenance import version_commands
from lastro.errors import InputError, PlatformError, StudyError, Unavailable
from lastro.functions.base import PATHS, CounterReading, Function
from lastro.functions.dpi import Dpi
from lastro.meters.interfaces import Counters
from lastro.platforms.base import InstanceSpec, Platform, configuration
from lastro.scenarios.base import make_parts, platform_levels, schemas
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.load import LoadScenario
from lastro.scenarios.load.probing import _Hops
from lastro.scenarios.shared.chain import _segments, deployed, hops_of
from lastro.scenarios.shared.flow import crossing_reasons
from lastro.scenarios.shared.function_row import EACH, TOGETHER, FunctionRow, in_row
from lastro.scenarios.shared.on_chain import OnChain, functions_level, hosts_levels, starts_s
from lastro.study.design import contradiction, treatments
from lastro.study.json_schema import json_schema
from lastro.study.levels import check_level
from lastro.study.load import parse
from lastro.study.model import Study
from lastro.study.problems import FieldError
from lastro.study.selection import Selection, with_variants
from lastro.testing.attachments import unstarted
from lastro.validity import path_reasons

from ...support.links import attachment
from ...support.scenarios import configured

SCHEMAS = schemas()
HEAD = '[study]\nname = "x"\nscenario = "{}"\n[factors]\nplatform = ["runc"]\nattachment = ["veth-bridge"]\n'
THREE = ("source", "function", "function2", "function3", "sink")
FLOW_BYTES = 1_000_000


def read(factors: str, scenario: str = "chain") -> Study:
    return parse(HEAD.format(scenario) + factors, "s.toml", SCHEMAS)


def row(level: str, placement: str = EACH, ip: str = "4", n_routers: int = 0) -> FunctionRow:
    return in_row(make_parts(Function, level), PATHS[ip], placement, "kernel", n_routers=n_routers)


def config(scenario: type[OnChain] = ChainScenario, **chosen: Any) -> dict[str, Any]:
    levels = {"platform": "native", "attachment": "veth-direct", "anomaly": "none", "isolation": "none"}
    generator = {"instrument": "trafgen"} if scenario is LoadScenario else {}
    return configured(scenario, **{**levels, **generator, **chosen})


# Levels


@pytest.mark.parametrize("scenario", ["chain", "load"])
def test_a_chain_is_a_level_with_the_options_of_each_hop(scenario: str) -> None:
    constants = '[settings]\ninstrument = "trafgen"\n' if scenario == "load" else ""
    text = 'function = ["firewall", "firewall:rules=5 > dpi>nat"]\nlength = [1, 2]\nplacement = ["each", "together"]\n'
    study = read(text + constants, scenario)
    factors = {factor.name: factor.levels for factor in study.factors}
    assert factors["function"] == ("firewall", "firewall:rules=5>dpi>nat")
    assert (factors["length"], factors["placement"]) == ((1, 2), ("each", "together"))
    same = 'function = ["dpi>nat", " dpi > nat"]\n'
    with pytest.raises(StudyError, match="same level as 'dpi>nat'"):
        read(same + constants, scenario)


def test_an_option_of_a_function_is_that_of_each_hop_with_its_name() -> None:
    chosen = {"function": "firewall>nat>firewall:rules=3", "function.firewall.rules": 7}
    assert functions_level(config(**chosen)) == "firewall:rules=7>nat>firewall:rules=3"
    assert functions_level(config(function="dpi", length=3)) == "dpi>dpi>dpi"
    text = 'function = ["nat>firewall"]\n"function.firewall.rules" = [1, 100]\n'
    assert read(text).factors[-1].levels == (1, 100)
    with pytest.raises(StudyError, match="not every treatment has it: function dpi>nat"):
        read('function = ["nat>firewall", "dpi>nat"]\n"function.firewall.rules" = [1, 100]\n')


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ('function = ["firewall>firewal"]\n', r"no function is named 'firewal'"),
        ('function = ["firewall>"]\n', r"'firewall>' has '>' without a function on one side"),
        ('function = ["firewall>http-proxy"]\n', r"no function is named 'http-proxy'"),
        ('function = ["dpi:rules=2>nat"]\n', r"function dpi has no option 'rules'"),
        ("length = [1, 9]\n", r"length\[1\]: must be at most 8, but is 9"),
        (f'function = ["{">".join(9 * ["nat"])}"]\n', r"has 9 hops, but a chain has at most 8"),
        ('placement = ["alone"]\n', r"'alone' is not a valid placement"),
        ('isolation = ["cgroups>seccomp"]\n', r"is a chain, and scenario chain has one isolation in a trial"),
        ('function = ["firewall@dokcer>nat"]\n', r"no platform is named 'dokcer'"),
        ('function = ["firewall@docker@runc"]\n', r"no platform is named 'docker@runc'"),
        ('function = ["firewall>nat@"]\n', r"'nat@' has '@' without a function before it and a platform behind it"),
        ('function = ["@runc"]\n', r"'@runc' has '@' without a function before it"),
        ('function = ["nat@docker:storage"]\n', r"'docker:storage' needs OPTION=VALUE after the colon"),
        ('function = ["nat@docker:rules=2"]\n', r"platform docker has no option 'rules'"),
        ('isolation = ["cgroups@runc"]\n', r"no isolation is named 'cgroups@runc'"),
        (
            'function = ["firewall@docker>nat@runc"]\nplacement = ["each", "together"]\n',
            r'factors.placement: placement = "together" puts firewall@docker>nat@runc into one instance, but names'
            r" docker and runc",
        ),
        (
            'function = ["firewall>nat@docker"]\n[settings]\nplacement = "together"\n',
            r"settings.placement: .* but names runc and docker",
        ),
        (
            'function = ["nat@docker:storage=vfs"]\n"platform.docker.storage" = ["vfs", "overlay2"]\n',
            r"has no effect in the function 'nat@docker:storage=vfs', which sets the option itself",
        ),
        (
            'function = ["nat@docker", "nat"]\n"platform.docker.storage" = ["vfs", "overlay2"]\n',
            r"varies an option of docker, but not every treatment has it",
        ),
    ],
)
def test_a_study_with_an_impossible_chain_is_refused(factors: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        read(factors)


def test_editors_know_chains() -> None:
    parts = json_schema(SCHEMAS)["$defs"]["chain"]["$defs"]["DesignTable"]["properties"]["baseline"]["properties"]
    validator = jsonschema.Draft202012Validator(parts["function"])
    for level in ("none", "dpi", "firewall:rules=5", "firewall>dpi", "firewall:rules=5 > nat>dpi:signatures=3"):
        assert validator.is_valid(level), level
    for level in ("nat@runc", "firewall:rules=5@docker:storage=vfs,runtime=crun > nat @ runc"):
        assert validator.is_valid(level), level
    for level in ("firewal>dpi", "firewall>", "nat:rules=1>dpi", "firewall:rules>dpi", ">".join(9 * ["nat"])):
        assert not validator.is_valid(level), level
    for level in ("nat@", "@runc", "nat@dokcer", "nat@docker:storage", "nat@runc@docker"):
        assert not validator.is_valid(level), level


def test_a_scenario_without_chains_refuses_one() -> None:
    with pytest.raises(StudyError, match="scenario compute has no factor or setting of this name"):
        read('function = ["firewall>nat"]\n[settings]\ninstrument = "pi"\n', "compute")


@pytest.mark.parametrize(
    ("level", "placement", "message"),
    [
        (">".join(9 * ["nat"]), EACH, "a chain has at most 8 hops, and this one has 9: nat>nat"),
        ("firewall>dpi>nat", TOGETHER, "dpi needs an instance for itself: firewall>dpi>nat"),
        ("nat>firewall", TOGETHER, "one kernel cannot pass these functions in this order: nat>firewall"),
        ("nat>nat", TOGETHER, "one kernel cannot pass these functions in this order: nat>nat"),
    ],
)
def test_functions_that_cannot_be_in_a_row_have_a_reason_and_a_remedy(level: str, placement: str, message: str) -> None:
    with pytest.raises(Unavailable, match=message) as caught:
        row(level, placement)
    assert caught.value.hint


def test_functions_in_a_row_run_in_the_kernel() -> None:
    with pytest.raises(Unavailable, match="run in the kernel or in XDP, not in click: nat>nat"):
        in_row(make_parts(Function, "nat>nat"), PATHS["4"], EACH, "click", n_routers=0)
    assert in_row(make_parts(Function, "nat"), PATHS["4"], EACH, "click", n_routers=0).roles == ["function"]


# Links and rules


def lines_of(roles: Sequence[str], ip: str = "4") -> list[list[str]]:
    segments = _segments({role: unstarted(role) for role in roles}, PATHS[ip])
    assert [segment.name for segment in segments] == list("abcd"[: len(roles) - 1])
    return [configuration(port) for segment in segments for port in segment.ports]


def test_each_hop_routes_to_the_sink_and_back_to_all_before_it() -> None:
    assert lines_of(THREE) == [
        ["address add 198.18.0.10/24 dev out0", "link set out0 up",
         "route add 198.18.1.10/32 via 198.18.0.1 dev out0"],
        ["address add 198.18.0.1/24 dev in0", "link set in0 up"],
        ["address add 198.18.11.1/24 dev out0", "link set out0 up",
         "route add 198.18.1.10/32 via 198.18.11.2 dev out0"],
        ["address add 198.18.11.2/24 dev in0", "link set in0 up",
         "route add 198.18.0.10/32 via 198.18.11.1 dev in0"],
        ["address add 198.18.12.1/24 dev out0", "link set out0 up",
         "route add 198.18.1.10/32 via 198.18.12.2 dev out0"],
        ["address add 198.18.12.2/24 dev in0", "link set in0 up",
         "route add 198.18.0.10/32 via 198.18.12.1 dev in0", "route add 198.18.11.1/32 via 198.18.12.1 dev in0"],
        ["address add 198.18.1.1/24 dev out0", "link set out0 up"],
        ["address add 198.18.1.10/24 dev in0", "link set in0 up",
         "route add 198.18.0.10/32 via 198.18.1.1 dev in0", "route add 198.18.11.1/32 via 198.18.1.1 dev in0",
         "route add 198.18.12.1/32 via 198.18.1.1 dev in0"],
    ]  # fmt: skip


def test_addresses_of_ipv6_are_like_those_of_ipv4() -> None:
    into = lines_of(THREE, "6")[3]
    assert into[0] == "address add 2001:2:0:11::2/64 dev in0 nodad"
    assert into[2] == "route add 2001:2::10/128 via 2001:2:0:11::1 dev in0"


@pytest.mark.parametrize("name", ["veth-bridge", "veth-direct", "macvlan-bridge", "ovs", "routed", "nat", "vxlan"])
def test_every_attachment_joins_all_hops(name: str) -> None:
    """The exact commands are those of its own tests: here, each port is made once, and no name twice."""
    part = attachment(name)
    segments = _segments({role: unstarted(role) for role in THREE}, PATHS["4"])
    batches = part.batches(cast(Any, SimpleNamespace(dut="dut")), segments)
    lines = [line for _, batch in batches for line in batch]
    made = [pair for line in lines for pair in re.findall(r"name ([a-z]+0) netns (\S+)", line)]
    assert sorted(made) == sorted((port.name, port.netns) for segment in segments for port in segment.ports)
    ends = [line.split()[3] for line in lines if line.startswith("link add name hub-")]
    assert len(set(ends)) == len(ends)


def places(level: str, n_routers: int = 0, ip: str = "4") -> list[str]:
    """What each function asks of a packet that it counts."""
    rules = [hop.function.ruleset(hop.path) for hop in row(level, ip=ip, n_routers=n_routers).hops]
    (lines,) = zip(
        *([line.strip() for line in text.splitlines() if "name crossed" in line] for text in rules), strict=True
    )
    return [line.removeprefix('iifname "in0" oifname != "in0" ').removesuffix("counter name crossed") for line in lines]


def test_a_function_alone_counts_every_packet_and_one_in_a_row_those_in_its_place() -> None:
    assert places("firewall") == [""]
    assert places("firewall>nat>none") == ["ip ttl 63-63 ", "ip ttl 62-62 ", "ip ttl 61-61 "]
    assert places("none>none", n_routers=1) == ["ip ttl 62-62 ", "ip ttl 60-60 "], "the DUT routes on each link"
    assert places("none>none", ip="6") == ["ip6 hoplimit 63-63 ", "ip6 hoplimit 62-62 "]
    found = places("dpi>nat>dpi>none")
    assert found == ["ip ttl 63-63 ", "ip ttl 61-62 ", "ip ttl 60-61 ", "ip ttl 58-60 "], "a detour is one more hop"


def test_functions_in_one_instance_have_a_table_each_and_follow_each_other() -> None:
    found = row("firewall>firewall>nat", TOGETHER)
    assert found.roles == ["function"] and found.capabilities("function", "kernel") == ("CAP_NET_ADMIN",)
    first, second, third = (hop.function.ruleset(hop.path) for hop in found.hops)
    assert first.startswith("table ip lastro {") and "forward priority filter;" in first
    assert second.startswith("table ip lastro2 {") and "forward priority filter + 1;" in second
    assert third.startswith("table ip lastro3 {") and "hook postrouting" in third
    assert "ttl" not in first + second + third
    assert found.crossings == ("crossed", "function2.crossed", "function3.crossed")
    assert found.witnesses == ("function3.translated",)


def test_a_row_has_what_any_of_its_functions_has() -> None:
    found = row("none>nat>dpi")
    assert (found.per_packet, found.tracks) == (True, "function2")
    assert (row("none>none").per_packet, row("none>none").tracks) == (False, "")
    assert found.capabilities("source", "dpdk") == ()


# Witnesses


def seen(**crossed: int) -> dict[str, CounterReading]:
    return {name.replace("_", "."): CounterReading(n // 1000, n) for name, n in crossed.items()}


@pytest.mark.parametrize(
    ("counted", "reason"),
    [
        (seen(crossed=FLOW_BYTES, function2_crossed=FLOW_BYTES, function3_crossed=FLOW_BYTES), None),
        (seen(crossed=FLOW_BYTES, function2_crossed=0, function3_crossed=FLOW_BYTES), "function2's own counter saw 0"),
        (
            seen(crossed=0, function2_crossed=FLOW_BYTES, function3_crossed=FLOW_BYTES),
            "the function's own counter saw 0",
        ),
        (seen(crossed=FLOW_BYTES, function2_crossed=FLOW_BYTES), "function3's own counter could not be read"),
    ],
)
def test_every_function_of_a_row_accounts_for_the_flow(counted: dict[str, CounterReading], reason: str | None) -> None:
    chain = SimpleNamespace(function=row("none>none>firewall"))
    found = crossing_reasons("tcp", cast(Any, chain), counted, FLOW_BYTES)
    assert found == [] if reason is None else [reason in each for each in found] == [True]


def test_the_links_of_every_hop_account_for_the_flow() -> None:
    chain: Any = SimpleNamespace(instances=dict.fromkeys(THREE), path=PATHS["4"])
    ports = [(port, f"{way}_bytes") for port, way in hops_of(chain)]
    assert [port for port, _ in ports] == [
        "source.out0", "function.in0", "function.out0", "function2.in0", "function2.out0", "function3.in0",
        "function3.out0", "sink.in0",
    ]  # fmt: skip
    moved = {port: {key: FLOW_BYTES} for port, key in ports}
    assert path_reasons("tcp", moved, FLOW_BYTES, ports) == []
    moved["function2.in0"] = {"rx_bytes": 0}
    (reason,) = path_reasons("tcp", moved, FLOW_BYTES, ports)
    assert "function2.in0 carried 0 bytes" in reason


def test_frames_are_lost_at_a_hop() -> None:
    hops = _Hops(hops_of(cast(Any, SimpleNamespace(instances=dict.fromkeys(THREE[:3] + THREE[-1:]), path=PATHS["4"]))))
    frames = dict(zip([port for port, _ in hops.ports], (1000, 990, 900, 890, 890, 890), strict=True))
    counted: Counters = {
        port: {"rx_packets": n, "tx_packets": n, "tx_dropped": 60 if port == "function.out0" else 0}
        for port, n in frames.items()
    }
    assert hops.lost_at(counted) == {
        "to the function": 10, "in the function": 30, "to the function2": 70, "in the function2": 0,
        "from the function2": 0,
    }  # fmt: skip
    assert list(hops.back.lost_at(counted)) == [
        "to the function2", "in the function2", "to the function", "in the function", "from the function"
    ]  # fmt: skip


def test_dpi_is_found_at_its_own_hop() -> None:
    assert Dpi.detoured({"function2.detour0": {"tx_packets": 4}}, {}, "function2") == 4
    assert Dpi.detoured({"function2.detour0": {"tx_packets": 4}}, {}) == 0


# Platforms of their own


MIXED = "firewall@docker>nat"


def test_a_hop_names_its_platform_with_its_options() -> None:
    study = read('function = ["firewall:rules=5 @ docker:storage=vfs,runtime=crun > nat@runc", "nat"]\n')
    level = "firewall:rules=5@docker:runtime=crun,storage=vfs>nat@runc"
    assert study.factors[-1].levels == (level, "nat")
    (firewall, nat) = make_parts(Function, level)
    assert (firewall.name, firewall.chosen["rules"], nat.name) == ("firewall", 5, "nat")
    chosen = Selection(only=(f"function={level}",)).of(study, SCHEMAS["chain"])
    assert chosen.factors[-1].levels == (level,)
    assert set(version_commands([chosen.config({"platform": "native", "function": level})])) >= {"dockerd", "runc"}


def test_a_scenario_without_platforms_has_none_in_its_chains() -> None:
    known = SCHEMAS["chain"]
    bare = replace(known, parts={kind: names for kind, names in known.parts.items() if kind != "platform"})
    with pytest.raises(FieldError, match="no function is named 'nat@runc'"):
        check_level(bare, "function", "nat@runc")
    assert json_schema({"chain": bare})


def test_a_hop_without_a_platform_runs_on_the_treatments() -> None:
    mixed = config(function=MIXED, platform="native", length=2)
    assert functions_level(mixed) == "firewall@docker>nat>firewall@docker>nat"
    assert hosts_levels(mixed) == ["docker", "native", "docker", "native"]
    assert platform_levels(mixed) == ["native", "docker"]
    assert platform_levels(config(function="nat>dpi")) == ["native"]
    assert hosts_levels(config(function=MIXED, platform="docker")) == ["docker", "docker"]


@pytest.mark.parametrize(
    ("options", "hosts"),
    [
        ({"platform.docker.storage": "vfs"}, ["docker:storage=vfs", "runc"]),
        ({"platform.storage": "vfs"}, ["docker", "runc:storage=vfs"]),
        ({"platform": "docker", "platform.storage": "vfs"}, ["docker:storage=vfs", "docker:storage=vfs"]),
        ({"function": "nat@docker:storage=btrfs", "platform.docker.storage": "vfs"}, ["docker:storage=btrfs"]),
        (
            {"function": "nat@docker:storage=btrfs>dpi", "platform": "docker", "platform.storage": "vfs"},
            ["docker:storage=btrfs", "docker:storage=vfs"],
        ),
        ({"function.firewall.rules": 7}, ["docker", "runc"]),
    ],
)
def test_options_of_a_platform_are_those_of_hops_on_it(options: dict[str, Any], hosts: list[str]) -> None:
    mixed = config(**{"function": MIXED, "platform": "runc", **options})
    assert hosts_levels(mixed) == hosts
    if "function.firewall.rules" in options:
        assert functions_level(mixed) == "firewall:rules=7@docker>nat"


def test_an_option_may_be_a_factor_where_each_chain_has_its_platform() -> None:
    assert read('function = ["nat@docker"]\n"platform.docker.storage" = ["vfs", "overlay2"]\n').factors[-1].levels
    one = read('function = ["nat@docker"]\n[settings]\ntcp_s = 2\n')
    ab = with_variants(one, SCHEMAS["chain"], [], ["platform.docker.storage=vfs"])
    assert len(treatments(ab)) == 2, "the change is of a platform that only a function names"


def test_functions_in_one_instance_have_one_platform() -> None:
    together = 'function = ["firewall@docker>nat@docker", "dpi"]\nplacement = ["each", "together"]\n'
    assert len(treatments(read(together))) == 4
    excluded = '[[exclude]]\nwhen = { function = "firewall@docker>nat", placement = "together" }\nreason = "two"\n'
    mixed = f'function = ["{MIXED}", "nat"]\nplacement = ["each", "together"]\n'
    assert len(treatments(read(mixed + excluded))) == 3
    with pytest.raises(StudyError, match="one instance") as caught:
        read(mixed)
    assert "or exclude these treatments" in (caught.value.hint or "")
    with pytest.raises(
        InputError, match=r'"together" puts firewall@docker>nat into one instance, but names docker and'
    ):
        Selection(settings=("placement=together",)).of(read(f'function = ["{MIXED}"]\n'), SCHEMAS["chain"])
    assert contradiction(config(function=MIXED, platform="docker", placement="together")) == ""


def test_instances_start_on_the_platform_of_their_function() -> None:
    started: list[tuple[str, str]] = []

    def platform(name: str) -> Any:
        @contextmanager
        def start(testbed: object, spec: InstanceSpec) -> Iterator[None]:
            started.append((name, spec.role))
            raise PlatformError("no instance")
            yield

        return SimpleNamespace(name=name, start=start)

    bed = cast(Any, SimpleNamespace(
        has_ipv6=False, session=SimpleNamespace(unique=str), on_own_cpus=lambda resources: resources
    ))  # fmt: skip
    seen: list[tuple[str, str]] = []

    def isolate(spec: InstanceSpec, host: Platform) -> InstanceSpec:
        seen.append((spec.role, host.name))
        return spec

    ends, other = platform("ends"), platform("other")
    chain = deployed(
        bed, ends, attachment("veth-direct"), *make_parts(Function, "nat>nat"), hosts=[other, ends], isolate=isolate
    )
    with pytest.raises(PlatformError, match="no instance"), chain:
        pass
    assert seen == [("source", "ends"), ("function", "other"), ("function2", "ends"), ("sink", "ends")]
    assert sorted(started) == sorted((host, role) for role, host in seen)


# Plans


@pytest.mark.parametrize("scenario", [ChainScenario, LoadScenario])
def test_the_ceiling_of_a_chain_has_as_many_hops(scenario: type[OnChain]) -> None:
    ceiling = scenario.plain_forwarding(config(scenario, function="firewall>nat", length=2))
    assert (ceiling["function"], ceiling["length"], ceiling["placement"]) == ("none", 4, "each")
    mixed = scenario.plain_forwarding(config(scenario, function="firewall@runc>nat", length=2))
    assert (mixed["function"], mixed["length"]) == ("none@runc>none>none@runc>none", 1)
    one = scenario.plain_forwarding(config(scenario, function="firewall@runc>nat@runc", placement="together"))
    assert (one["function"], one["placement"]) == ("none@runc", "each")
    assert not [key for key in scenario.calibrations(config(scenario, function="none@runc>none")) if "ceiling" in key]
    together = scenario.plain_forwarding(config(scenario, function="firewall>nat", placement="together"))
    assert (together["function"], together["length"]) == ("none", 1)
    keys = [
        *scenario.calibrations(config(scenario, function="nat")),
        *scenario.calibrations(config(scenario, function="nat", length=2)),
    ]
    assert len(set(keys)) == 2


def test_more_instances_take_longer() -> None:
    one, four = config(function="none", platform="docker"), config(function="none", platform="docker", length=4)
    assert starts_s(one) < starts_s(four)
    assert starts_s({**four, "placement": "together"}) == starts_s(one)
    assert ChainScenario.duration_s(one) < ChainScenario.duration_s(four)
    assert starts_s(config(function="none@docker")) == starts_s(one), "one platform is as slow as the slowest"
    assert ChainScenario.probing_s([config(function="none@docker")]) > ChainScenario.probing_s([one])


@pytest.mark.parametrize("scenario", [ChainScenario, LoadScenario])
def test_a_program_of_xdp_is_never_attached_to_a_network_card(scenario: type[OnChain]) -> None:
    untried: Any = object.__new__(scenario)  # without probes
    untried._testbed = SimpleNamespace(usable_cpus=[0, 1])
    found = untried.availability(config(scenario, function="none", attachment="card", implementation="xdp"))
    assert not found and found.reason == "a network card would keep its XDP program after the trial"
