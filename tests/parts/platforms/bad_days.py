"""runc whose sink has a bad day: real containers, in whose writable layer iperf3 is not what it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lastro.platforms.base import Instance, InstanceSpec
from lastro.platforms.runc import Runc
from lastro.testbed import Testbed

_IPERF3 = "/usr/bin/iperf3"


class _Broken(Runc):
    """`role` is the instance in which `script` is run after the start."""

    role = "source"
    script = ""

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        with super().start(testbed, spec) as instance:
            if spec.role == self.role:
                instance.run(["sh", "-ec", self.script])
            yield instance


class WithoutServer(_Broken):
    name = "runc-without-server"
    summary = "for tests: no iperf3 in the sink"
    role = "sink"
    script = f"rm {_IPERF3}"


class WithoutClient(_Broken):
    name = "runc-without-client"
    summary = "for tests: no iperf3 in the source"
    script = f"rm {_IPERF3}"


class Garbage(_Broken):
    name = "runc-garbage"
    summary = "for tests: an iperf3 that prints garbage"
    script = f"rm {_IPERF3}; printf '#!/bin/sh\\necho segmentation vault\\n' > {_IPERF3}; chmod 755 {_IPERF3}"


class HalfJson(_Broken):
    name = "runc-half-json"
    summary = "for tests: an iperf3 whose report is sound JSON, and no report"
    script = f"""rm {_IPERF3}; cat > {_IPERF3} <<'END'
#!/bin/sh
echo '{{"end": [1, 2]}}'
END
chmod 755 {_IPERF3}"""


class Liar(_Broken):
    name = "runc-liar"
    summary = "for tests: an iperf3 that reports ten times what any interface has seen"
    script = f"""cp {_IPERF3} /tmp/iperf3; rm {_IPERF3}
cat > {_IPERF3} <<'END'
#!/bin/sh
/tmp/iperf3 "$@" | perl -pe 's/"(bytes|bits_per_second)":\\s*([0-9.e+]+)/sprintf q("%s": %.10g), $1, 10 * $2/e'
END
chmod 755 {_IPERF3}"""


class SilentPing(_Broken):
    name = "runc-silent-ping"
    summary = "for tests: a ping that answers the first time, and then prints nothing"
    script = """cp /usr/bin/ping /tmp/ping; rm /usr/bin/ping
printf '#!/bin/sh\\n[ -e /tmp/once ] && exit 0; touch /tmp/once; exec /tmp/ping "$@"\\n' > /usr/bin/ping
chmod 755 /usr/bin/ping"""


class Dying(_Broken):
    name = "runc-dying"
    summary = "for tests: the sink ends half a second after its start"
    role = "sink"
    script = "(sleep 1; kill -KILL -1) >/dev/null 2>&1 </dev/null &"
