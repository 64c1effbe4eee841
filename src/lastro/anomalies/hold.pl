# Opens files or sockets in each of its workers, up to a number, and then closes and opens them in turn without pause.
#
# Arguments: "files" or "sockets", workers, number for each worker, seconds until the end. The kernel bounds each worker
# to that number and a few more, by RLIMIT_NOFILE; a lower limit that it finds stays. Modules of Debian's perl-base only.
use strict;
use warnings;
use Socket qw(PF_INET SOCK_DGRAM INADDR_LOOPBACK pack_sockaddr_in);

my ($kind, $workers, $each, $timeout_s) = @ARGV;
my $BESIDES = 32;    # descriptors of Perl itself
my %open = (
  files => sub {
    open(my $file, "<", "/dev/null") or return undef;
    return $file;
  },
  sockets => sub {
    socket(my $socket, PF_INET, SOCK_DGRAM, 0) or return undef;
    return bind($socket, pack_sockaddr_in(0, INADDR_LOOPBACK)) ? $socket : undef;
  },
);
my @pids;

# The soft limit is often 1,024; a hard one can only fall.
if (!$ENV{LASTRO_BOUNDED}) {
  chomp(my $hard = `sh -c "ulimit -H -n"`);
  my $most = $each + $BESIDES;
  $most = $hard if $hard ne "unlimited" && $hard < $most;
  $ENV{LASTRO_BOUNDED} = 1;
  exec("prlimit", "--nofile=$most:$most", $^X, $0, @ARGV) or die "prlimit: $!\n";
}

sub worker {
  my $parent = shift;
  $SIG{$_} = "DEFAULT" for qw(TERM ALRM);
  my $open = $open{$kind};
  my @held;
  while (@held < $each) { push @held, $open->() // last }
  die "$kind: $!\n" unless @held;
  while (getppid == $parent) {
    for my $place (@held) { undef $place; $place = $open->() }
  }
  exit 0;
}

sub finish { kill "KILL", @pids; 1 while wait != -1; exit shift }

$SIG{TERM} = $SIG{ALRM} = sub { finish(0) };
alarm $timeout_s;
my $parent = $$;
for (1 .. $workers) {
  my $pid = fork // die "fork: $!\n";
  worker($parent) unless $pid;
  push @pids, $pid;
}
wait;
finish(1);
