# Runs commands on a remote host, one after another, as they arrive on standard input; and reads and writes files.
#
# Running a command takes one fork and one exec; reading a file takes neither. All modules are those of Debian's perl-base,
# which has no Time::HiRes: clocks and the timer are system calls. POSIX is loaded only for a command that does not start.
# Request: a line "NONCE KIND SECONDS BYTES BYTES", its words, each ended by a zero byte, and the standard input, if any
# (BYTES is then not -1). Answer: a line "NONCE CODE BYTES BYTES BEGAN ENDED USER SYSTEM USER SYSTEM", standard output,
# standard error. BEGAN and ENDED are on the monotonic clock; the others are CPU seconds of this shell and of its children.
#   KIND run    number of variables of the environment, these, argv
#        perl   the body of a subroutine, and its arguments
use strict;
use Config;
use Fcntl;

my ($ready) = @ARGV;
delete $ENV{PERL_BADLANG};
$| = 1;
# The numbers of clock_gettime and setitimer, by processor.
my ($get_clock, $set_timer) = @{ {
    x86_64 => [228, 38], i386 => [265, 104], i686 => [265, 104], arm => [263, 104], powerpc64le => [246, 104],
    s390x => [260, 104], map { $_ => [113, 103] } qw(aarch64 riscv64 loongarch64),
}->{ $Config{archname} =~ /^(\w+?)-/ ? $1 : '' } // [] };
if (!$get_clock) { print "\n$ready no-clock\n"; exit }
chdir '/';
umask 022;
$SIG{PIPE} = sub { };    # unlike an ignored signal, it is not inherited
$SIG{CHLD} = 'DEFAULT';
my $new = Fcntl::O_WRONLY() | Fcntl::O_CREAT() | Fcntl::O_EXCL();
my $patience = 5;         # seconds for a killed command to end
my ($memory) = grep {
    eval { unnamed("$_/lastro-$ready"); 1 }
} '/dev/shm', '/tmp';
if (!$memory) { print "\n$ready no-directory\n"; exit }

print "\n$ready @{[times, servers()]}\n";
my ($began, $ended);
while (defined(my $line = readline STDIN)) {
    my ($nonce, $kind, $seconds, $words, $input) = split ' ', $line;
    my @words = split /\0/, taken($words), -1;
    pop @words;
    my $stdin = $input < 0 ? undef : taken($input);
    ($began, $ended) = (now());
    my ($code, $out, $err) =
        eval { ($kind eq 'run' ? \&run : \&evaluate)->("$memory/lastro-$nonce", $seconds, $stdin, @words) };
    # This host has no more files or processes.
    ($code, $out, $err) = (126, '', "the command cannot be started: $@") if !defined $code;
    my @numbers = (length $out, length $err, $began, $ended // now(), times);
    print "$nonce $code @numbers\n", $out, $err;
}

sub now { return clock(1) }    # CLOCK_MONOTONIC

sub clock {
    my ($which) = @_;
    my $time = pack 'l!2', 0, 0;
    syscall($get_clock, $which, $time) == 0 or die "clock_gettime: $!\n";
    return sprintf '%d.%09d', unpack 'l!2', $time;
}

# Have SIGALRM sent once, in a number of seconds that need not be whole; 0: do not.
sub alarm_in {
    my $us = int 1e6 * $_[0];
    my $timer = pack 'l!4', 0, 0, $us / 1e6, $us % 1e6;
    syscall($set_timer, 0, $timer, 0) == 0 or die "setitimer: $!\n";
}

# The processes of sshd that serve this connection are above this shell.
sub servers {
    my ($pid, @found) = (getppid);
    while ($pid > 1) {
        my ($name, $parent) = (content("/proc/$pid/stat") // '') =~ /\((.*)\) \S (\d+)/s or last;
        push @found, $pid if $name =~ /^sshd/;
        $pid = $parent;
    }
    return @found;
}

sub taken {
    my ($bytes) = @_;
    my $text = '';
    while (length $text < $bytes) { read STDIN, $text, $bytes - length $text, length $text or exit }
    return $text;
}

# Run a command like `timeout env`: same messages and exit codes; 137 if killed.
sub run {
    my ($name, $seconds, $stdin, $variables, @argv) = @_;
    my %environment = map { split /=/, $_, 2 } splice @argv, 0, $variables;
    my ($stdout, $out) = unnamed("$name.o");
    my ($stderr, $err) = unnamed("$name.e");
    my ($source, $feed);
    pipe $source, $feed or die "pipe: $!\n" if defined $stdin;
    $began = now();
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        eval {
            setpgrp 0, 0;
            open STDIN, '<&', $source if $source;
            open STDIN, '<', '/dev/null' if !$source;
            open STDOUT, '>&', $stdout;
            open STDERR, '>&', $stderr;
            %ENV = %environment if $variables;
            exec { $argv[0] } @argv;
            my ($code, $reason) = ($! == 2 ? 127 : 126, "$!");    # 2: ENOENT
            syswrite STDERR, "env: '$argv[0]': $reason\n";
            require POSIX;
            POSIX::_exit($code);
        };
        kill 'KILL', $$;    # it must not go on as a second shell
    }
    close $source if $source;
    my ($late, $gone) = (0, 0);
    local $SIG{ALRM} = sub {
        return if $gone;
        die "in uninterruptible sleep\n" if $late++;
        kill 'KILL', -$pid, $pid;
        alarm_in($patience);
    };
    alarm_in($seconds);
    eval {
        while (length $stdin) {    # the command may end without reading it
            my $put = syswrite $feed, $stdin or last;
            substr $stdin, 0, $put, '';
        }
        close $feed if $feed;
        until ($gone = waitpid($pid, 0) == $pid) { }
    };
    my $status = $?;
    $ended = now();
    alarm_in(0);
    return ($late ? 137 : $status & 127 ? 128 + ($status & 127) : $status >> 8, written($out), written($err));
}

# Return the two ends of a file in memory without a name.
sub unnamed {
    my ($name) = @_;
    sysopen my $write, $name, $new, 0600 or die "$name: $!\n";
    open my $read, '<', $name or die "$name: $!\n";
    unlink $name;
    return ($write, $read);
}

# A daemon left by the command may still write: what it adds from now on is not sent.
sub written {
    my ($file) = @_;
    read $file, my $text, -s $file;
    return $text;
}

# For queries: a directory and all below it, the deepest first; a file's bytes, or undef.
sub below {
    my ($top) = @_;
    my ($directory, @names);
    @names = grep { !/^\.\.?\z/ } readdir $directory if opendir $directory, $top;
    return ((map { !-l "$top/$_" && -d _ ? below("$top/$_") : () } @names), $top);
}

sub content {
    my ($path) = @_;
    my ($file, $n, $text) = (undef, undef, '');
    if (open $file, '<', $path) { while ($n = sysread $file, $text, 65536, length $text) { } }
    return defined $n ? $text : undef;
}

sub evaluate {
    my (undef, $seconds, $stdin, $text) = splice @_, 0, 4;
    local $SIG{ALRM} = sub { die "no answer within $seconds s\n" };
    alarm_in($seconds);
    my @found = eval $text;
    my $problem = $@;
    alarm_in(0);
    return $problem ? (1, '', $problem) : (0, join('', @found), '');
}
