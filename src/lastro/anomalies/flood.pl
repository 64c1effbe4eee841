# Sends datagrams of 18 bytes by UDP, the smallest that fill an Ethernet frame, to ports of one address in turn.
#
# Arguments: address, workers, number of ports, datagrams per second of each worker once it has sent to all of its ports
# (0: without pause), seconds until the end. Modules of Debian's perl-base only.
use strict;
use warnings;
use POSIX ();
use Socket qw(PF_INET SOCK_DGRAM inet_aton pack_sockaddr_in);

my ($address, $workers, $n_ports, $per_s, $timeout_s) = @ARGV;
my ($FIRST_PORT, $SLOT_S, $MOST_BEHIND_S, $FIRST_PER_S, $PAYLOAD) = (1024, 0.02, 0.2, 20_000, "x" x 18);
my $TICKS_PER_S = POSIX::sysconf(POSIX::_SC_CLK_TCK());
my @pids;

sub now_s { return (POSIX::times())[0] / $TICKS_PER_S }

sub worker {
  my ($number, $parent) = @_;
  $SIG{$_} = "DEFAULT" for qw(TERM ALRM);
  socket(my $socket, PF_INET, SOCK_DGRAM, 0) or die "socket: $!\n";
  my @to = map { pack_sockaddr_in($FIRST_PORT + $_, inet_aton($address)) } grep { $_ % $workers == $number } 0 .. $n_ports - 1;
  @to = (pack_sockaddr_in($FIRST_PORT, inet_aton($address))) unless @to;
  my ($next, $rounds, $due, $last_s) = (0, 0, 0, now_s());
  while (getppid == $parent) {
    my ($now_s, $rate) = (now_s(), $rounds || @to == 1 ? $per_s : $FIRST_PER_S);
    $due += $rate * ($now_s - $last_s);
    $due = $rate * $MOST_BEHIND_S if $due > $rate * $MOST_BEHIND_S;    # what was missed is not made up for
    $last_s = $now_s;
    my $n = $per_s ? int $due : 1000;
    $due -= $n;
    for (1 .. $n) {
      send($socket, $PAYLOAD, 0, $to[$next]);    # a full queue may refuse one; the next may pass
      if (++$next == @to) { $next = 0; ++$rounds }
    }
    select(undef, undef, undef, $SLOT_S) if $per_s;
  }
  exit 0;
}

sub finish { kill "KILL", @pids; 1 while wait != -1; exit shift }

$SIG{TERM} = $SIG{ALRM} = sub { finish(0) };
alarm $timeout_s;
my $parent = $$;
for my $number (0 .. $workers - 1) {
  my $pid = fork // die "fork: $!\n";
  worker($number, $parent) unless $pid;
  push @pids, $pid;
}
wait;
finish(1);
