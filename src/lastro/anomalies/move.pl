# Moves memory, or writes to the disk, in each of its workers at a rate or without pause, and counts the bytes in a file
# of each worker.
#
# Arguments: "copy" (reads and writes memory), "compare" (reads it) or "write" (to a file in the working directory, which
# has no name), workers, bytes of memory or of the file for each worker, bytes that each worker moves per second (0:
# without pause), seconds until the end, and where the counts are: PREFIX.NUMBER. Modules of Debian's perl-base only.
use strict;
use warnings;
use Fcntl qw(O_CREAT O_EXCL O_WRONLY SEEK_SET);
use POSIX ();

my ($kind, $workers, $bytes, $per_s, $timeout_s, $prefix) = @ARGV;
my ($CHUNK, $SLOT_S, $MOST_BEHIND_S) = (256 << 10, 0.02, 0.2);
my $TICKS_PER_S = POSIX::sysconf(POSIX::_SC_CLK_TCK());
my @pids;

sub now_s { return (POSIX::times())[0] / $TICKS_PER_S }

# Two halves of the memory. Each part that is moved is small beside the cache of one processor, where Perl keeps a copy.
sub mover {
  my $half = $CHUNK * (int($bytes / 2 / $CHUNK) || 1);
  my ($from, $to, $at) = ("\1" x $half, "\1" x $half, 0);
  substr($to, 0, 1) = "\1";    # Perl may have made one string of two that are equal
  return sub {
    if ($kind eq "copy") { substr($to, $at, $CHUNK) = substr($from, $at, $CHUNK) }
    else { substr($to, $at, $CHUNK) eq substr($from, $at, $CHUNK) or die "memory changed\n" }
    $at = ($at + $CHUNK) % $half;
    return 2 * $CHUNK;
  };
}

# Each write is on the disk when it returns: what waits in memory when the file ends would never get there. Perl's Fcntl
# has no O_DSYNC; its number is that of Linux on every processor but Alpha, MIPS, PA-RISC and SPARC.
sub writer {
  my ($name, $O_DSYNC, $block) = ("load.$$", 010000, "\1" x $CHUNK);
  sysopen(my $file, $name, O_WRONLY | O_CREAT | O_EXCL | $O_DSYNC, 0600) or die "$name: $!\n";
  unlink $name or die "$name: $!\n";
  my $at = 0;
  return sub {
    sysseek($file, $at = 0, SEEK_SET) if $at >= $bytes;
    my $n = syswrite($file, $block) // die "writing: $!\n";
    $at += $n;
    return $n;
  };
}

sub worker {
  my ($number, $parent) = @_;
  $SIG{$_} = "DEFAULT" for qw(TERM ALRM);
  open(my $count, ">", "$prefix.$number") or die "$prefix.$number: $!\n";
  my ($move, $moved, $due, $last_s) = ($kind eq "write" ? writer() : mover(), 0, 0, now_s());
  while (getppid == $parent) {
    my $now_s = now_s();
    $due += $per_s * ($now_s - $last_s);
    $due = $per_s * $MOST_BEHIND_S if $due > $per_s * $MOST_BEHIND_S;    # what was missed is not made up for
    $last_s = $now_s;
    my $until_s = $now_s + $SLOT_S;
    while ($per_s ? $due > 0 : now_s() < $until_s) {
      my $n = $move->();
      $moved += $n;
      $due -= $n;
    }
    sysseek($count, 0, 0);
    syswrite($count, "$moved\n");
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
