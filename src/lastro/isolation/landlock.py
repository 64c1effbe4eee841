"""Landlock: before it starts, every command gives up the right to write outside of its working directories.

Landlock is the kernel's sandbox without privileges (Linux 5.13 and later): a process, root or not, restricts itself and
its children, and the restriction is permanent. So it requires nothing of a platform, and means the same on the bare
host, in a container and in a guest. The process also sets no_new_privs; otherwise it would need a capability. From then
on, it cannot write outside of WRITABLE, and cannot make device nodes anywhere. Landlock also prevents it from mounting,
and from inspecting processes that are not restricted in the same way. Each command has the overhead of starting perl
once, some milliseconds.

Source: landlock(7), linux/landlock.h. Its system calls have the same numbers on every architecture."""

from __future__ import annotations

from lastro.isolation.base import Isolation, Profile
from lastro.platforms.base import Availability, Instance, InstanceSpec, Platform
from lastro.testbed import IN_A_GUEST, Testbed

WRITABLE = ("/tmp", "/run", "/var", "/dev")
_UNSUPPORTED = 125

# Rights: 0x1ff2 is all of writing, removing and making; 0x2000 linking across directories (second version of the
# interface), 0x4000 truncating (third); 0x840 making device nodes. 0x200000 is O_PATH; 38 PR_SET_NO_NEW_PRIVS.
_SCRIPT = """
sub call { my $r = syscall(shift, @_); return $r if $r >= 0; print STDERR "landlock: $!\\n"; exit UNSUPPORTED }
my $version = call(444, 0, 0, 1);
my $rights = 0x1ff2 | ($version > 1 ? 0x2000 : 0) | ($version > 2 ? 0x4000 : 0);
my $set = call(444, my $ask = pack("Q", $rights), 8, 0);
for (qw(WRITABLE)) {
  sysopen(my $place, $_, 0x200000) or next;
  call(445, $set, 1, my $rule = pack("Qi", $rights & ~0x840, fileno $place), 0);
}
require Config;
call($Config::Config{archname} =~ /^x86_64/ ? 157 : 167, 38, 1, 0, 0, 0);
call(446, $set, 0);
exec { $ARGV[0] } @ARGV;
print STDERR "$ARGV[0]: $!\\n"; exit($!{ENOENT} ? 127 : 126);
"""
_SCRIPT = _SCRIPT.replace("WRITABLE", " ".join(WRITABLE)).replace("UNSUPPORTED", str(_UNSUPPORTED)).strip()

# Prints the errno of two attempts, 0 for a success: to make a directory in /etc, and a device node (null) in /tmp.
_ATTEMPTS = """
my @probe = ("/etc/lastro-probe", "/tmp/lastro-probe");
print mkdir($probe[0]) ? rmdir($probe[0]) && 0 : $! + 0, " ";
require Config;
my $mknodat = $Config::Config{archname} =~ /^x86_64/ ? 259 : 33;
print syscall($mknodat, -100, $probe[1], 020600, 0x103) == 0 ? unlink($probe[1]) && 0 : $! + 0, "\\n";
"""
_EACCES, _EROFS = 13, 30


class Landlock(Isolation):
    name = "landlock"
    summary = f"no writing outside of {', '.join(WRITABLE)}, by the kernel's Landlock, regardless of privileges"

    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        return spec.with_security(prefix=(*spec.security.prefix, "perl", "-e", _SCRIPT))

    def verify(self, instance: Instance) -> str | None:
        done = instance.run(["perl", "-e", _ATTEMPTS], check=False)
        if done.returncode == _UNSUPPORTED:
            return f"its kernel refuses Landlock ({done.error_text.strip()})"
        if done.returncode != 0:
            return f"it cannot be checked: {done.error_text.strip()[-200:]}"
        in_etc, device_node = (int(word) for word in done.text.split())
        expected_in_etc = {_EACCES, _EROFS} if instance.spec.security.read_only_root else {_EACCES}
        if in_etc not in expected_in_etc:
            return f"making a directory in /etc {_outcome(in_etc)}"
        return None if device_node == _EACCES else f"making a device node in /tmp {_outcome(device_node)}"

    def probe(self, testbed: Testbed, platform: Platform) -> Availability:
        availability = super().probe(testbed, platform)
        if availability.reason and "refuses Landlock" in availability.reason:
            remedy = f"run a kernel that has it (5.13 or later, `landlock` in its lsm= list), {IN_A_GUEST}"
            return Availability(availability.reason, remedy)
        return availability


def _outcome(errno: int) -> str:
    return f"failed with errno {errno}, not with {_EACCES}" if errno else "succeeded"
