# What a process here can reach of the kernel under it. Alters nothing: files are opened and never written, devices are
# not even opened, system calls get arguments that cannot work. Prints lines of fields with a tab between.
#
# Read from standard input, with a first line of its own data after the end (numbers of system calls that it needs
# itself), then a line for each call to try: number, name, arguments. Modules of Debian's perl-base only.
use strict;
use warnings;
use Fcntl qw(O_WRONLY O_NONBLOCK O_NOCTTY);
use POSIX ();

my ($MOST_FILES, $MOST_S) = (300_000, 20);
my ($FACCESSAT, $PRCTL) = split " ", <DATA>;
my ($AT_FDCWD, $W_OK, $R_OK, $PR_SET_DUMPABLE) = (-100, 2, 4, 4);
my $end = time + $MOST_S;
my $n_files = 0;
$| = 1;

sub report { print join("\t", @_), "\n" }

sub first_line {
  open(my $file, "<", shift) or return "";
  my $line = <$file>;
  return defined $line ? $line =~ s/[\0\s]+$//r : "";
}

sub may { my ($path, $mode) = @_; return syscall($FACCESSAT, $AT_FDCWD, $path, $mode, 0) == 0 }

# Calls a function with the path of every file below a directory, on the same file system, links not followed.
sub walk {
  my ($directory, $device, $skip, $each) = @_;
  opendir(my $handle, $directory) or return;
  for my $name (sort grep { $_ ne "." && $_ ne ".." } readdir $handle) {
    my $path = "$directory/$name";
    next if $path =~ $skip;
    if (++$n_files > $MOST_FILES || time > $end) { report("cut_short", $path) if $end; $end = 0; return }
    my @found = lstat $path or next;
    next if -l _;
    if (-d _) { walk($path, $device, $skip, $each) if $found[0] == $device }
    else { $each->($path, @found) }
  }
}

sub facts {
  open(my $status, "<", "/proc/self/status") or die "/proc/self/status: $!\n";
  while (<$status>) { report("status", $1, $2) if /^(CapEff|CapBnd|Seccomp|NoNewPrivs):\s+(\S+)/ }
  report("uid_map", first_line("/proc/self/uid_map") =~ s/^\s+//r =~ s/\s+/ /gr);
  report("kernel", first_line("/proc/sys/kernel/osrelease"));
  report("hostname", first_line("/proc/sys/kernel/hostname"));
  report("label", first_line("/proc/self/attr/current"));
  if (opendir(my $proc, "/proc")) { report("processes", scalar grep { /^\d+$/ } readdir $proc) }
  for my $kind (qw(cgroup ipc mnt net pid time user uts)) {
    my $link = readlink "/proc/self/ns/$kind";
    report("namespace", $kind, $link) if defined $link;
  }
}

# Of processes, in /proc/PID, it is enough that they are seen. A file whose mode lets nobody write takes no writes, even
# where root could open it for them.
sub writable_files {
  for my $top ("/proc", "/sys") {
    my $device = (lstat $top)[0];
    next unless defined $device && $device != (lstat "/")[0];  # nothing is mounted there
    walk($top, $device, qr{^/proc/\d+$}, sub {
      my ($path, @found) = @_;
      return unless -f _ && $found[2] & 0222 && may($path, $W_OK);
      sysopen(my $file, $path, O_WRONLY | O_NONBLOCK | O_NOCTTY) and report("writable", $path);
    });
  }
}

# The kernel says whether one could be opened, its device cgroup included; opening is left, since with some it is an
# act: a watchdog would start to count down.
sub devices {
  my %seen;
  walk("/dev", (lstat "/dev")[0], qr{^/dev/(shm|mqueue|hugepages)$}, sub {
    my ($path, @found) = @_;
    return unless -c _ || -b _;
    my $kind = (-b _ ? "b" : "c") . ($found[6] >> 8 & 0xfff) . ":" . ($found[6] & 0xff | $found[6] >> 12 & 0xfff00);
    return if $seen{$kind}++;
    my $how = (may($path, $R_OK) ? "r" : "") . (may($path, $W_OK) ? "w" : "");
    report("device", $kind, $path, $how) if $how;
  });
}

# Each in a child of its own, which the call may change or end.
sub system_calls {
  while (my $line = <DATA>) {
    my ($number, $name, @arguments) = split " ", $line;
    defined(my $child = fork) or die "fork: $!\n";
    if (!$child) {
      syscall($PRCTL, $PR_SET_DUMPABLE, 0, 0, 0, 0);  # no core file, should a filter kill it
      my @given = map { $_ eq "S" ? $$ : $_ eq "K" ? 0x4c617374 : $_ + 0 } @arguments;
      alarm 1;
      my $result = syscall($number + 0, @given);
      POSIX::_exit($result == -1 ? $! + 0 : 0);
    }
    waitpid($child, 0);
    report("call", $name, $? & 127 ? "signal " . ($? & 127) : $? >> 8);
  }
}

facts();
writable_files();
devices();
system_calls();
report("done");
