# Runs commands on a remote host, one after another, as they arrive on standard input; and reads and writes files.
#
# Running a command takes one fork and one exec; reading a file takes neither. Without one of the modules Fcntl and
# Time::HiRes, sh(1) takes its place. POSIX is loaded only for a command that does not start.
# Request: a line "NONCE KIND SECONDS BYTES BYTES", its words, each ended by a zero byte, and the standard input, if any
# (BYTES is then not -1). Answer: a line "NONCE CODE BYTES BYTES BEGAN ENDED USER SYSTEM USER SYSTEM", standard output,
# standard error. BEGAN and ENDED are on the monotonic clock; the others are CPU seconds of this shell and of its children.
#   KIND run    number of variables of the environment, these, argv
#        perl   the body of a subroutine, and its arguments
use strict;

my ($ready) = @ARGV;
delete $ENV{PERL_BADLANG};
$| = 1;
if (!eval { require Fcntl; require Time::HiRes; 1 }) { print "\n$ready sh\n"; exec 'sh' }
chdir '/';
umask 022;
$SIG{PIPE} = sub { };    # unlike an ignored signal, it is not inherited
$SIG{CHLD} = 'DEFAULT';
my $new = Fcntl::O_WRONLY() | Fcntl::O_CREAT() | Fcntl::O_EXCL();
my $patience = 5;         # seconds for a killed command to end
my ($memory) = grep {
    eval { unnamed("$_/lastro-$ready"); 1 }
} '/dev/shm', '/tmp';
if (!$memory) { print "\n$ready none\n"; exit }

print "\n$ready perl @{[times, servers()]}\n";
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

sub now { return sprintf '%.9f', Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC()) }

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
        Time::HiRes::alarm($patience);
    };
    Time::HiRes::alarm($seconds);
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
    Time::HiRes::alarm(0);
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
    Time::HiRes::alarm($seconds);
    my @found = eval $text;
    my $problem = $@;
    Time::HiRes::alarm(0);
    return $problem ? (1, '', $problem) : (0, join('', @found), '');
}
