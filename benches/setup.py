"""Set-up and teardown of a chain (three instances, links, firewall, proof by ping), and the start of an instance to the
exit of its first command, against the same by raw commands.

The raw side is a shell script that a person who knows the tools would write: the same containers, links in one batch
for each namespace, the same ruleset. Targets: a chain at most 1.5 times, and under 1 s on runc; a start at most 1.3
times, a virtual machine's 1.1 times.

    python benches/setup.py [PLATFORM ...] [--json]    only the starts on these platforms"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from _harness import Ratio, interleaved, show, words
from _raw import MACHINES, RECIPES, Recipe, docker_client
from lastro import registry
from lastro.app.hosts import testbed
from lastro.errors import LastroError, Unavailable
from lastro.functions.base import ForwardingPath
from lastro.platforms.base import InstanceSpec
from lastro.platforms.oci import oci_config
from lastro.scenarios.shared.chain import ROLES, deployed, instance_spec
from lastro.testbed import Testbed

N_PAIRS = 20


def ratios(n_pairs: int = N_PAIRS) -> list[Ratio]:
    with testbed("benches", wait=True) as bed:
        return [*chains(bed, n_pairs), *starts(bed, n_pairs, sorted(RECIPES))]


def chains(bed: Testbed, n_pairs: int) -> Iterator[Ratio]:
    for platform, raw in (("runc", raw_runc), ("docker", raw_docker)):
        with prepared(bed, platform) as ready:
            script = raw(bed, bed.run_dir / f"raw-{platform}", ready)
            what = f"set-up and teardown of a chain on {platform}"
            yield interleaved(what, "≤ 1.5", lambda p=ready: ours(bed, p), lambda s=script: by_hand(s), n_pairs)


def starts(bed: Testbed, n_pairs: int, platforms: Sequence[str]) -> Iterator[Ratio]:
    """Start to the exit of the first command; what comes after it is not timed."""
    for platform in platforms:
        try:
            name = f"raw-{platform}"
            with prepared(bed, platform) as ready, bed.session.owned("netns", bed.session.netns_name(name)):
                if not (found := ready.probe(bed)):
                    raise Unavailable(str(found.reason))
                recipe = RECIPES[platform](bed, ready, name)
                target = "≤ 1.1" if platform in MACHINES else "≤ 1.3"
                what = f"start to first command on {platform}"
                yield interleaved(what, target, lambda p=ready: start(bed, p), lambda r=recipe: raw_start(r), n_pairs)
        except LastroError as error:
            print(f"{platform}: {error}", file=sys.stderr)


@contextmanager
def prepared(bed: Testbed, platform: str) -> Iterator[Any]:
    with ExitStack() as stack:
        ready = registry.get("platform", platform)()
        stack.enter_context(ready.prepare(bed))
        yield ready


def start(bed: Testbed, ready: Any) -> float:
    spec = InstanceSpec(bed.session.unique("start"), "raw")
    began_s = time.monotonic()
    with bed.host.recorded(), ready.start(bed, spec) as instance:
        instance.run(["true"])
        return 1000 * (time.monotonic() - began_s)


def raw_start(recipe: Recipe) -> float:
    began_s = time.monotonic()
    try:
        recipe.begin()
        return 1000 * (time.monotonic() - began_s)
    finally:
        recipe.end()


def ours(bed: Testbed, platform: object) -> None:
    attachment, function = registry.get("attachment", "veth-bridge")(), registry.get("function", "firewall")()
    with bed.host.recorded(), deployed(bed, platform, attachment, function):  # type: ignore[arg-type]
        pass


def by_hand(script: str) -> None:
    subprocess.run(["sh", "-e"], input=script, text=True, check=True, stdout=subprocess.DEVNULL)


def _links(names: dict[str, str]) -> str:
    """Bridge, four veth pairs, addresses and routes, in one batch for each namespace."""
    source, function, sink = (names[role] for role in ROLES)
    return f"""
ip netns add raw-hub
ip -n raw-hub -batch - <<END
link add name raw-br type bridge stp_state 0 forward_delay 0 mcast_snooping 0
link set raw-br up
link add name v1 type veth peer name out0 netns {source}
link set v1 master raw-br up
link add name v2 type veth peer name in0 netns {function}
link set v2 master raw-br up
link add name v3 type veth peer name out0 netns {function}
link set v3 master raw-br up
link add name v4 type veth peer name in0 netns {sink}
link set v4 master raw-br up
END
nsenter --net=/run/netns/raw-hub sh -c 'echo 0 > /proc/sys/net/bridge/bridge-nf-call-iptables' || true
ip -n {source} -batch - <<END
address add 198.18.0.10/24 dev out0
link set out0 up
route add 198.18.1.10/32 via 198.18.0.1
END
ip -n {function} -batch - <<END
address add 198.18.0.1/24 dev in0
link set in0 up
address add 198.18.1.1/24 dev out0
link set out0 up
END
ip -n {sink} -batch - <<END
address add 198.18.1.10/24 dev in0
link set in0 up
route add 198.18.0.10/32 via 198.18.1.1
END
"""


def raw_runc(bed: Testbed, work: Path, _platform: object) -> str:
    """Bundles are written beforehand; everything that the kernel has to do is in the script."""
    ruleset = registry.get("function", "firewall")().ruleset(ForwardingPath())
    names = {role: f"raw-{role}" for role in ROLES}
    runc = f"runc --root {work}/state"
    start = ""
    for role, name in names.items():
        bundle, layers = work / name, bed.scratch_dir / name
        (bundle / "rootfs").mkdir(parents=True)
        spec = instance_spec(bed, role, ("CAP_NET_ADMIN",) if role == "function" else ())
        config = oci_config(spec, name, f"{bed.session.cgroup}/{name}")
        (bundle / "config.json").write_text(json.dumps(config))
        overlay = f"lowerdir={bed.image.tree},upperdir={layers}/upper,workdir={layers}/work"
        start += f"""ip netns add {name}
ip -n {name} link set lo up
mkdir -p {layers}/upper {layers}/work
unshare --mount --propagation private sh -ec 'mount -t overlay overlay -o {overlay} {bundle}/rootfs
exec {runc} run --detach --bundle {bundle} {name}' </dev/null >/dev/null 2>{bundle}/log
"""
    stop = "".join(
        f"{runc} delete --force {n}\nip netns del {n}\nrm -rf {bed.scratch_dir}/{n}\n" for n in names.values()
    )
    rules = work / "rules.nft"
    rules.write_text(ruleset)
    install = f"{runc} exec raw-function nft -f - < {rules}\n"
    prove = f"{runc} exec raw-source ping -n -c 1 -W 2 198.18.1.10\n"
    return start + _links(names) + install + prove + stop + "ip netns del raw-hub\n"


def raw_docker(bed: Testbed, work: Path, platform: object) -> str:
    """Against the same daemon, which both sides find running."""
    docker = docker_client(bed, platform)
    names = {role: f"raw-{role}" for role in ROLES}
    work.mkdir(parents=True)
    rules = work / "rules.nft"
    rules.write_text(registry.get("function", "firewall")().ruleset(ForwardingPath()))
    start = ""
    for role, name in names.items():
        spec = instance_spec(bed, role)
        options = " ".join(f"--sysctl={key}={value}" for key, value in spec.sysctls.items())
        options += " --cap-add=NET_ADMIN" if role == "function" else ""
        group = f"--cgroup-parent {bed.session.cgroup}"
        confined = "--security-opt=apparmor=unconfined --security-opt=seccomp=unconfined"
        start += f"""{docker} run --detach --name {name} --network none {group} {options} {confined} \
{bed.image.docker_tag} sleep infinity
ip netns attach {name} $({docker} inspect --format '{{{{.State.Pid}}}}' {name})
"""
    install = f"{docker} exec --interactive raw-function nft -f - < {rules}\n"
    prove = f"{docker} exec raw-source ping -n -c 1 -W 2 198.18.1.10\n"
    stop = "".join(f"{docker} rm --force {name}\nip netns del {name}\n" for name in names.values())
    return start + _links(names) + install + prove + stop + "ip netns del raw-hub\n"


if __name__ == "__main__":
    if platforms := words():
        with testbed("benches", wait=True) as bed:
            show(list(starts(bed, N_PAIRS, platforms)))
    else:
        show(ratios())
