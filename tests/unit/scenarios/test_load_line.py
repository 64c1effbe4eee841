"""The treatments of the scenario load: what is refused, goals, bounds and calibrations, and CPUs of the function."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.errors import Unavailable
from lastro.functions.base import PATHS
from lastro.results.samples import Outcome
from lastro.scenarios.load import LoadScenario, _require_supported
from lastro.scenarios.load.goals import Goal
from lastro.scenarios.load.measuring import METRICS, bounds_of, goals_of
from lastro.scenarios.load.steering import _mask, queue_frames, short_buffer, steer

from ...support.loading import config
from ...support.recording import RecordingHost, answer

OWN_KERNEL = ("qemu-tcg", "kvm", "xen", "gvisor", "kata", "docker:runtime=runsc", "docker:runtime=kata")


def test_a_generator_that_binds_itself_to_a_cpu_needs_it() -> None:
    with pytest.raises(Unavailable, match=r"trafgen binds itself to CPU 0, and the first .* is 2") as caught:
        _require_supported(config(instrument="trafgen"), [2, 3])
    assert "sockperf" in str(caught.value.hint)
    _require_supported(config(instrument="trafgen"), [0, 1])
    for platform in OWN_KERNEL:  # which has CPUs of its own
        _require_supported(config(instrument="trafgen", platform=platform), [2, 3])
    _require_supported(config(instrument="sockperf"), [2, 3])


@pytest.mark.parametrize(
    ("chosen", "hint"),
    [
        ({"instrument": "trafgen", "frame_size": "imix", "ip": "6"}, "use one frame size of 66 B or more"),
        ({"instrument": "trafgen", "frame_size": "64", "ip": "6"}, "raise frame_size to 66"),
        ({"instrument": "sockperf", "frame_size": "64", "ip": "6"}, "raise frame_size to 80"),
        ({"instrument": "sockperf", "frame_size": "64", "ip": "6", "flows": 2}, 'use instrument = "trafgen"'),
        ({"instrument": "sockperf", "frame_size": "imix", "ip": "6"}, 'use instrument = "trafgen"'),
        (
            {"implementation": "xdp", "attachment": "card"},
            'use implementation = "kernel", or measure XDP on veth in scenario = "chain"',
        ),
    ],
)
def test_what_it_cannot_send_has_a_hint_that_helps(chosen: dict[str, Any], hint: str) -> None:
    with pytest.raises(Unavailable) as caught:
        _require_supported(config(**chosen), [0, 1])
    assert caught.value.hint == hint


def test_a_generator_in_the_host_s_kernel_needs_a_sender_on_it() -> None:
    for platform in OWN_KERNEL:
        with pytest.raises(
            Unavailable, match="pktgen is a thread of the host's kernel, and the source has a"
        ) as caught:
            _require_supported(config(instrument="pktgen", platform=platform), [0, 1, 2])
        assert caught.value.hint == 'use instrument = "trafgen"'
    _require_supported(config(instrument="pktgen", platform="docker", frame_size="imix", flows=100), [2, 3])


def test_a_generator_that_keeps_its_cpu_busy_sends_in_one_direction() -> None:
    """Two would take turns on one CPU, and each send in bursts what it had missed."""
    for platform in ("native", "runc", "docker", "docker:runtime=crun", "lxc", "podman"):
        with pytest.raises(Unavailable, match="sockperf keeps CPU 2 busy for one direction"):
            _require_supported(config(instrument="sockperf", direction="both", platform=platform), [2, 3, 4, 5])
    _require_supported(config(instrument="trafgen", direction="both"), [0, 1])


@pytest.mark.parametrize("platform", OWN_KERNEL)
def test_on_kernels_of_their_own_two_that_keep_cpus_busy_leave_one_to_the_function(platform: str) -> None:
    both = config(instrument="sockperf", direction="both", platform=platform)
    for usable, n in (([0, 1], 2), ([3], 1)):
        with pytest.raises(Unavailable, match=f"busy for each direction, and Lastro may use only {n} for both and the"):
            _require_supported(both, usable)
    _require_supported(both, [0, 1, 2])
    _require_supported(config(instrument="sockperf", platform=platform), [0, 1])


@pytest.mark.parametrize(
    ("chosen", "reason", "hint"),
    [
        ({"chains": 2}, "sockperf keeps CPU 0 busy for one chain, and cannot share it with the other", "chains = 1"),
        ({"chains": 4, "direction": "both"}, "busy for one direction of each chain, and cannot share it with 7 others",
         'chains = 1 and direction = "forward"'),
        ({"chains": 4, "platform": "kvm"}, "busy for each chain, and Lastro may use only 4 for all 4 and the function",
         "chains = 1"),
    ],
)  # fmt: skip
def test_generators_that_keep_cpus_busy_cannot_serve_several_chains(
    chosen: dict[str, Any], reason: str, hint: str
) -> None:
    with pytest.raises(Unavailable, match=reason) as caught:
        _require_supported(config(instrument="sockperf", **chosen), [0, 1, 2, 3])
    assert caught.value.hint == f'use instrument = "trafgen", or {hint}'
    _require_supported(config(**{**chosen, "instrument": "trafgen"}), [0, 1, 2, 3])


def test_goals_and_bounds_are_those_of_the_study() -> None:
    assert [(goal.name, goal.loss_ratio, goal.exceed_ratio) for goal in goals_of(config(exceed_percent=20))] == [
        ("pdr", 0.005, 0.2), ("ndr", 0.0, 0.2),
    ]  # fmt: skip
    assert goals_of(config(own_goal="2% exceed 10%"))[2] == Goal("own", 0.02, 0.1)
    assert bounds_of(config()).most_fps == 1_000_000
    assert (bounds_of(config(), 200_000).begin_fps, bounds_of(config(), 200_000).most_fps) == (200_000, 1_000_000)
    sockperf = bounds_of(config(instrument="sockperf", probe_s=1.5))
    assert (sockperf.first_s, sockperf.final_s, sockperf.sum_s) == (1, 2, 3)
    assert (bounds_of(config()).warm_up_s, bounds_of(config(instrument="sockperf", warm_up_s=0.5)).warm_up_s) == (1, 1)
    assert LoadScenario.duration_s(config(at="none")) < LoadScenario.duration_s(config(chains=4))
    assert LoadScenario.duration_s(config(chains=4)) < LoadScenario.duration_s(config()), "it measures no latency"
    longer, none = (LoadScenario.duration_s(config(warm_up_s=length_s)) for length_s in (3, 0))
    assert longer - LoadScenario.duration_s(config()) == pytest.approx(2) and longer - none > 3
    declared = {metric.name for metric in METRICS}
    assert {
        f"{goal}{end}" for goal in ("pdr", "ndr", "own") for end in ("", "_upper", "_conditional", "_exceed")
    } <= declared


def test_the_ceiling_is_plain_forwarding_and_measured_once_for_all_functions() -> None:
    (key,) = LoadScenario.calibrations(config(function="dpi", anomaly="cpu"))
    assert key.startswith("ceiling/native/veth-direct/none/trafgen/64/")
    assert [key] == list(LoadScenario.calibrations(config(function="firewall")))
    assert LoadScenario.calibrations(config()) == {}
    assert {each.partition("/")[0] for each in LoadScenario.calibrations(config(isolation="cgroups"))} == {
        "ceiling", "profile",
    }  # fmt: skip
    probes = [{"sent": 90_000, "lasted_s": 0.3}, {"sent": 10_000, "lasted_s": 0.2}]
    for most_fps, ceiling_fps in ((250_000.0, 250_000), (1e6, 300_000)):  # the latter: it lost frames of what was sent
        outcome = Outcome(notes={"most_fps": most_fps, "probes": probes})
        assert LoadScenario.calibration_value(cast(Any, None), key, outcome) == pytest.approx(ceiling_fps)


@pytest.mark.parametrize(("limit", "said"), [(212_992, True), (4_194_304, False)])
def test_a_buffer_that_holds_less_than_the_queue_is_a_condition(limit: int, said: bool) -> None:
    files = {"/proc/sys/net/core/wmem_max": f"{limit}\n", "/proc/sys/net/core/netdev_max_backlog": "1000\n"}
    host = cast(Any, SimpleNamespace(view=SimpleNamespace(read=lambda _: files)))
    found = short_buffer(host, "sockperf")
    assert ("425,984 bytes, less than the queue" in found.get("buffer of the generator's socket", "")) is said
    assert short_buffer(host, "trafgen") == {}


def chain_on(host: RecordingHost, *in_xdp: str) -> Any:
    """A chain of one function, with an XDP program on the ports `in_xdp`."""
    links: list[dict[str, Any]] = [{"ifname": "in0"}, {"ifname": "out0"}]
    for link in links:
        link |= {"xdp": {"mode": 1}} if link["ifname"] in in_xdp else {}
    bed = SimpleNamespace(host=host, usable_cpus=[0, 1, 40])
    instance = SimpleNamespace(takes_taps=False, shares_kernel=True, testbed=bed, netns="N2", links=lambda: links)
    veth = SimpleNamespace(wired=False)
    return SimpleNamespace(instances={"function": instance}, source=instance, path=PATHS["4"], attachment=veth)


def test_packets_are_steered_to_the_other_cpus() -> None:
    host = RecordingHost()
    chain = chain_on(host)
    assert steer(cast(Any, chain), "apart") == {"CPUs of the function's kernel": "1, 40, by receive packet steering"}
    assert host.commands == [["nsenter", "--net=/run/netns/N2", "unshare", "--mount", "sh", "-e"]]
    for port in ("in0", "out0"):
        files = f"/sys/class/net/{port}/queues/rx-*/rps_cpus"
        assert f"for file in {files}; do echo 00000100,00000002 > $file; done\n" in str(host.stdins[0])
    assert steer(cast(Any, chain), "sender") == {"CPUs of the function's kernel": "the one that sends"}
    machine = SimpleNamespace(takes_taps=True, shares_kernel=False, testbed=chain.source.testbed)
    chain.instances["function2"] = machine
    mixed = steer(cast(Any, chain), "apart")
    assert mixed == {"CPUs of the function's kernel": "1, 40, by receive packet steering; function2: its own"}
    chain.instances["function"] = machine
    assert steer(cast(Any, chain), "apart") == {"CPUs of the function's kernel": "its own"}
    chain.attachment.wired = True
    assert steer(cast(Any, chain), "apart") == {
        "CPUs of the function's kernel": "those that the interrupts of its network cards choose"
    }
    assert len(host.commands) == 2
    assert _mask([0]) == "00000001" and _mask([31, 32]) == "00000001,80000000"


@pytest.mark.parametrize(("printed", "cpus"), [("pid 7's new affinity list: 1,40\n", "1, 40"), ("", "any")])
@pytest.mark.parametrize("in_xdp", [("in0", "out0"), ("in0",)], ids="+".join)
def test_threads_poll_the_ports_of_an_xdp_program(printed: str, cpus: str, in_xdp: tuple[str, ...]) -> None:
    """A namespace of processes may hide the threads, which then run where the kernel wants."""
    host = RecordingHost(lambda argv: answer(printed))
    chain = chain_on(host, *in_xdp)
    found = steer(chain, "apart")
    assert found == {
        "CPUs of the function's kernel": f"{cpus}, by threads of the kernel that poll the ports of its XDP program"
    }
    script = str(host.stdins[0])
    for port in ("in0", "out0"):
        assert (f"echo 1 > /sys/class/net/{port}/threaded\n" in script) is (port in in_xdp)
        assert (f"/sys/class/net/{port}/queues/rx-*/rps_cpus; do" in script) is (port not in in_xdp)
    assert script.count("taskset --cpu-list --pid 1,40 ") == len(in_xdp)
    assert steer(chain, "sender") == {"CPUs of the function's kernel": "the one that sends"}
    assert queue_frames([chain, chain], "forward") == 512, "each chain has a ring of its own"
    host.files["/proc/sys/net/core/netdev_max_backlog"] = "1000\n"
    both = queue_frames([chain, chain], "both")
    assert both == (1024 if len(in_xdp) == 2 else 512 + 2 * 1000), "the way back has one, or the queue of a CPU"


def test_a_kernel_whose_threads_cannot_poll_has_no_xdp_here() -> None:
    host = RecordingHost(lambda argv: answer(code=2, error="cannot create threaded: Permission denied"))
    with pytest.raises(Unavailable, match=r"no thread of the kernel polls in0: .* threaded") as caught:
        steer(chain_on(host, "in0"), "apart")
    assert caught.value.hint == "use a kernel from Linux 5.12 on, whose threads can poll a port"
