# Measures how fast a busy loop is on one CPU, alone and beside another loop on each of some other CPUs.
#
# Arguments: how often each is measured, milliseconds of each measurement, the CPU, the other CPUs. Each line it prints is
# "alone RATE", or "CPU RATE" beside a loop on that CPU. Rates are rounds per nanosecond of the loop's own time on its
# CPU, so programs that take turns with it do not matter. Modules of Debian's perl-base only.
use strict;
use warnings;
use POSIX ();

my ($times, $slot_ms, $here, @others) = @ARGV;
my $TICKS_PER_S = POSIX::sysconf(POSIX::_SC_CLK_TCK());
my ($CHUNK, $BEGIN_S) = (5000, 0.01);

sub now_s { return (POSIX::times())[0] / $TICKS_PER_S }

sub on_cpu_ns {
  open(my $file, "<", "/proc/self/schedstat") or die "schedstat: $!\n";
  return (split " ", <$file>)[0];
}

sub pin { system("taskset -cp $_[0] $$ >/dev/null") == 0 or die "taskset: CPU $_[0]\n" }

sub rate {
  my $end_s = now_s() + $slot_ms / 1000;
  my ($from_ns, $rounds, $sum) = (on_cpu_ns(), 0, 0);
  while (now_s() < $end_s) {
    $sum += $_ ^ $rounds for 1 .. $CHUNK;
    $rounds += $CHUNK;
  }
  return $rounds / (on_cpu_ns() - $from_ns);
}

sub beside {
  my $parent = $$;
  my $pid = fork // die "fork: $!\n";
  if (!$pid) {
    pin($_[0]);
    while (getppid == $parent) { my $sum = 0; $sum += $_ for 1 .. $CHUNK }
    exit 0;
  }
  select(undef, undef, undef, $BEGIN_S);
  my $found = rate();
  kill "KILL", $pid;
  waitpid($pid, 0);
  return $found;
}

pin($here);
for (1 .. $times) {
  printf "alone %.9f\n", rate();
  printf "%d %.9f\n", $_, beside($_) for @others;
}
