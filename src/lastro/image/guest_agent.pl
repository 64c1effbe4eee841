# The control agent of a guest: runs commands that arrive over serial ports, one at a time on each port.
#
#   perl guest_agent.pl PORT...     PORT: a path (virtio-serial port, UART, hvc), vsock=N, or fd=N (tests)
#
# It needs perl-base alone, lives outside the root filesystem, and sends nothing while nothing is asked, but for HELLO when
# it opens a UART. VirtualBox never reads on where it got bytes before the kernel cleared the UART's buffer; and a client
# that hears HELLO in the middle of a command knows that the guest has begun to boot again.
#
# Frame: SYNC, nonce (16 hex digits), type (a letter), length of the body as sent (8 hex digits), body.
# Inside a body, the first three bytes of SYNC are followed by a zero byte. So SYNC begins a frame wherever it occurs,
# and whatever precedes it (noise, the half frame of a client that was killed) is dropped. The nonce is the client's:
# an answer to another client is never taken for one's own.
#   to the agent:   S argv joined by zero bytes   I standard input   Z its end   T a signal's number   P ping   C clocks
#   from the agent: A accepted   O stdout   E stderr   W bytes of input taken   X exit status   C monotonic realtime, ns
use strict;
use warnings;
use Fcntl;
use POSIX ();

use constant { PREFIX => "\xf5\x9a\x5c", SYNC => "\xf5\x9a\x5c\x01", HEADER => 29, CHUNK => 32768, HIGH => 131072 };
use constant { HELLO => "\xf5\x9a\x5c\x02\n" };    # in no body
use constant { LONGEST => 4 * 32768, CONNECT_S => 2 };

%ENV = (PATH => '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL => 'C.UTF-8');
chdir '/';
umask 022;
$SIG{PIPE} = 'IGNORE';

my ($port, $bell, $rung);     # the line; a pipe that signals ring, so that `select` never misses one
my $listener;                 # of vsock, whose every client comes on a line of its own
my ($received, $queued) = ('', '');
my ($connected, $last_nonce) = (1, '');
my ($asked, $answered) = (0, 1);    # when a client first spoke, and whether it has been reached
my $job;    # of the command that runs: nonce, pid, status, in, out, err, input, input_ends

my %handler = map { (start_handler($_) => $_) } @ARGV;
while ((my $pid = waitpid -1, 0) > 0) {
    my $name = delete $handler{$pid} // next;
    warn "lastro: the handler of $name ended with $?, another one takes over\n";
    select undef, undef, undef, 0.1;
    $handler{start_handler($name)} = $name;
}

sub start_handler {
    my ($name) = @_;
    my $pid = fork // die "lastro: fork: $!\n";
    return $pid if $pid;
    open_port($name);
    serve();
}

sub open_port {
    my ($name) = @_;
    if ($name =~ /^fd=(\d+)$/) { open $port, '+<&=', $1 or die "lastro: $name: $!\n" }
    elsif ($name =~ /^vsock=(\d+)$/) { listen_at($1) }
    else { sysopen $port, $name, O_RDWR | O_NOCTTY or die "lastro: $name: $!\n" }
    make_raw(fileno $port) if $port && -t $port;
    $queued = HELLO if $name =~ /ttyS/;
    pipe $bell, $rung or die "lastro: pipe: $!\n";
    no_waiting($_) for $bell, $rung;
    my $ring = POSIX::SigAction->new(sub { syswrite $rung, '!' });
    POSIX::sigaction($_, $ring) for POSIX::SIGCHLD, 29;    # 29: SIGIO
    signals(POSIX::SIG_BLOCK);
    return next_client() if $listener;
    # A virtio port without a client reads as ended at once: only its signal tells that somebody has come.
    # (A number, hence 0 +: fcntl takes text for an address.)
    fcntl $port, F_SETOWN, 0 + $$ or die "lastro: $name: $!\n";
    fcntl $port, F_SETFL, O_RDWR | O_NONBLOCK | O_ASYNC or die "lastro: $name: $!\n";
}

# struct sockaddr_vm of vsock.7: family, reserved, port, any CID, zeros.
sub listen_at {
    my ($number) = @_;
    socket $listener, 40, 1, 0 or die "lastro: vsock: $!\n";    # AF_VSOCK, SOCK_STREAM
    bind $listener, pack 'S S L L x4', 40, 0, $number, 0xffffffff or die "lastro: vsock $number: $!\n";
    listen $listener, 4 or die "lastro: vsock $number: $!\n";
}

sub next_client {
    close $port if $port;
    accept $port, $listener or die "lastro: accept: $!\n";
    no_waiting($port);
    ($connected, $asked) = (1, 0);
}

sub make_raw {
    my ($fd) = @_;
    my $termios = POSIX::Termios->new;
    $termios->getattr($fd) or return;
    $termios->setiflag(0);
    $termios->setoflag(0);
    $termios->setlflag(0);
    $termios->setcflag(POSIX::CS8 | POSIX::CREAD | POSIX::CLOCAL);
    $termios->setcc(POSIX::VMIN, 1);
    $termios->setcc(POSIX::VTIME, 0);
    $termios->setattr($fd, POSIX::TCSANOW);
}

sub no_waiting { fcntl $_[0], F_SETFL, O_NONBLOCK | fcntl $_[0], F_GETFL, 0 }

# Signals run their handler at once, in C: they are let in only while `select` waits, where that harms nothing.
sub signals { POSIX::sigprocmask($_[0], POSIX::SigSet->new(POSIX::SIGCHLD, 29)) }

sub serve {
    while (1) {
        my ($read, $write, $wait) = wanted();
        signals(POSIX::SIG_UNBLOCK);
        my $found = select $read, $write, undef, $wait;
        signals(POSIX::SIG_BLOCK);
        ($read, $write) = ('', '') if $found < 0;
        1 while sysread $bell, my $bytes, 64;
        read_port();
        feed_input() if $job;
        collect($read) if $job;
        write_port();
    }
}

# What to wait for. A command that has ended is only emptied; a slow client holds its command back.
sub wanted {
    my ($read, $write, $wait) = ('', '', undef);
    vec($read, fileno $bell, 1) = 1;
    vec($read, fileno $port, 1) = 1 if $connected;
    vec($write, fileno $port, 1) = 1 if length $queued && $connected;
    $wait = 0.002 if !$connected && !$answered;
    if ($job && length $queued < HIGH) {
        $job->{$_} and vec($read, fileno $job->{$_}, 1) = 1 for 'out', 'err';
        $wait = 0 if defined $job->{status};
    }
    vec($write, fileno $job->{in}, 1) = 1 if $job && $job->{in} && length $job->{input};
    return ($read, $write, $wait);
}

sub read_port {
    while (1) {
        my $got = sysread $port, $received, CHUNK, length $received;
        if (!defined $got) {
            $connected = 1 if $!{EAGAIN};
            return if $!{EAGAIN} || $!{EINTR};
            $got = 0;
        }
        if (!$got) { return client_gone() }
        take_frames();
    }
}

# The word that a client has come may arrive after its first bytes: an end right after them is none.
sub client_gone {
    $connected = 0;
    return if !$listener && !$answered && time - $asked < CONNECT_S;
    end_job();
    ($received, $queued, $answered) = ('', '', 1);
    next_client() if $listener;
}

sub take_frames {
    while ((my $at = index $received, SYNC) >= 0) {
        substr $received, 0, $at, '';
        my $next = index $received, SYNC, 4;
        my $size = length $received;
        my ($nonce, $type, $length) = $received =~ /^....([0-9a-f]{16})([A-Z])([0-9a-f]{8})/s;
        $length = defined $nonce ? hex $length : 0;
        my $sound = defined $nonce ? $length <= LONGEST : $size < HEADER;
        if ($sound && defined $nonce && $size >= HEADER + $length && ($next < 0 || $next >= HEADER + $length)) {
            my $body = substr $received, HEADER, $length;
            substr $received, 0, HEADER + $length, '';
            $body =~ s/\xf5\x9a\x5c\x00/\xf5\x9a\x5c/g;
            obey($nonce, $type, $body);
        }
        elsif ($next > 0) { substr $received, 0, $next, '' }
        elsif ($sound) { return }    # the rest is on its way
        else { substr $received, 0, 4, '' }
    }
    substr $received, 0, -3, '' if length $received > 3;
}

sub obey {
    my ($nonce, $type, $body) = @_;
    if ($type =~ /[SPC]/) {
        if ($job && $job->{nonce} ne $nonce) {    # a client that has gone without a word: some lines cannot tell
            end_job();
            $queued = '';
        }
        ($asked, $answered) = (time, 0);
        $type eq 'C' ? answer($nonce, 'C', clocks()) : answer($nonce, 'A', '');
        return if $type ne 'S' || $nonce eq $last_nonce;    # asked twice, run once
        start_job($last_nonce = $nonce, split /\0/, $body, -1);
    }
    elsif (!$job || $job->{nonce} ne $nonce) { return }
    elsif ($type eq 'I') { $job->{in} ? ($job->{input} .= $body) : answer($nonce, 'W', length $body) }
    elsif ($type eq 'Z') { $job->{input_ends} = 1 }
    elsif ($type eq 'T' && !defined $job->{status}) { kill $body, -$job->{pid} }
}

sub answer {
    my ($nonce, $type, $body) = @_;
    $body =~ s/\xf5\x9a\x5c/\xf5\x9a\x5c\x00/g;
    $queued .= SYNC . $nonce . $type . sprintf('%08x', length $body) . $body;
}

sub clocks {
    my $number = (POSIX::uname())[4] eq 'x86_64' ? 228 : 113;    # clock_gettime here and on newer architectures
    my $now = sub { my $spec = "\0" x 16; syscall $number, $_[0], $spec; my ($s, $ns) = unpack 'qq', $spec; $s * 1_000_000_000 + $ns };
    return $now->(1) . ' ' . $now->(0);
}

sub start_job {
    my ($nonce, @argv) = @_;
    pipe my $stdin, my $in or die "lastro: pipe: $!\n";
    pipe my $out, my $stdout or die "lastro: pipe: $!\n";
    pipe my $err, my $stderr or die "lastro: pipe: $!\n";
    my $pid = fork // die "lastro: fork: $!\n";
    if (!$pid) {
        POSIX::setsid();
        POSIX::dup2(fileno $stdin, 0);
        POSIX::dup2(fileno $stdout, 1);
        POSIX::dup2(fileno $stderr, 2);
        $SIG{PIPE} = 'DEFAULT';
        POSIX::sigaction($_, POSIX::SigAction->new('DEFAULT')) for POSIX::SIGCHLD, 29;
        signals(POSIX::SIG_UNBLOCK);
        { no warnings; exec { $argv[0] } @argv }
        my ($code, $reason) = ($!{ENOENT} ? 127 : 126, "$!");
        syswrite STDERR, "lastro: $argv[0]: $reason\n";
        POSIX::_exit($code);
    }
    no_waiting($_) for $in, $out, $err;
    $job = { nonce => $nonce, pid => $pid, in => $in, out => $out, err => $err, input => '' };
}

sub feed_input {
    my $in = $job->{in} or return;
    my $taken = 0;
    while (length $job->{input}) {
        my $put = syswrite $in, $job->{input}, CHUNK;
        last if !defined $put && ($!{EAGAIN} || $!{EINTR});
        if (!defined $put) {    # nobody reads it any more: what still comes is dropped
            $taken += length $job->{input};
            ($job->{input}, $job->{in}) = ('', undef);
            last;
        }
        $taken += $put;
        substr $job->{input}, 0, $put, '';
    }
    answer($job->{nonce}, 'W', $taken) if $taken;
    delete $job->{in} if $job->{input_ends} && !length $job->{input};
}

# Forward what the command has printed. Its end counts when the command itself ends, whoever still holds its output.
sub collect {
    my ($ready) = @_;
    if (!defined $job->{status} && waitpid($job->{pid}, POSIX::WNOHANG) == $job->{pid}) { $job->{status} = $? }
    my $dry = 1;
    for my $name ('out', 'err') {
        my $pipe = $job->{$name} or next;
        next if !defined $job->{status} && !vec $ready, fileno $pipe, 1;
        $dry = 0, next if length $queued >= HIGH;
        my $got = sysread $pipe, my $bytes, CHUNK;
        if ($got) { $dry = 0; answer($job->{nonce}, $name eq 'out' ? 'O' : 'E', $bytes) }
        elsif (defined $got) { delete $job->{$name} }
    }
    return if !$dry || !defined $job->{status};
    my $status = $job->{status};
    answer($job->{nonce}, 'X', $status & 127 ? 128 + ($status & 127) : $status >> 8);
    $job->{$_} and keep_draining($job->{$_}) for 'out', 'err';
    $job = undef;
}

# A daemon that the command left behind may print on without dying of it.
sub keep_draining {
    my ($pipe) = @_;
    return if fork // return;
    POSIX::setsid();
    POSIX::dup2(fileno $pipe, 0);
    open STDOUT, '>', '/dev/null';
    fcntl STDIN, F_SETFL, 0;
    POSIX::sigaction($_, POSIX::SigAction->new('DEFAULT')) for POSIX::SIGCHLD, 29;
    signals(POSIX::SIG_UNBLOCK);
    { no warnings; exec 'cat' }
    POSIX::_exit(1);
}

sub write_port {
    while (length $queued) {
        my $put = syswrite $port, $queued, CHUNK;
        return unless defined $put;
        $answered = 1;
        substr $queued, 0, $put, '';
    }
}

sub end_job {
    return unless $job;
    if (!defined $job->{status}) {
        kill 'KILL', -$job->{pid}, $job->{pid};
        waitpid $job->{pid}, 0;
    }
    $job = undef;
}
