# Runs jobs as forks of this process, which has loaded the application once (launcher_mode = fork).
# Open no connections before the fork: each job opens its own.
use strict;
use warnings;
use IO::Handle;
use POSIX ();
# use Application;

# Runs one job; what it returns is the job's exit code.
sub run {
    my ($job) = @_;
    print "job $job, attempt ", $ENV{JOBD_ATTEMPT} // 1, "\n";
    return 0;
}

open(my $requests, '<&=', 3) or die "descriptor 3: $!";
open(my $answers, '>&=', 4) or die "descriptor 4: $!";
$answers->autoflush(1);
my $parent = $$;
END { # exit in a job: what the parent has for its own end stays the parent's
    if (defined $parent && $$ != $parent) { STDOUT->flush; POSIX::_exit($?) }
}
STDOUT->flush;    # what was written while loading is no job's
print $answers "ready\n";
while (defined(my $line = <$requests>)) {
    last if $line eq "quit\n";
    my (undef, $job, undef, @variables) = split ' ', $line;
    my $pid = fork;
    if (!defined $pid) { print $answers "refused $job\n"; next }
    if ($pid) { waitpid $pid, 0; print $answers "ended $job $?\n"; next }
    POSIX::setpgid(0, 0);
    for (@variables) {
        s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
        my ($name, $value) = split /=/, $_, 2;
        $ENV{$name} = $value;
    }
    print $answers "started $job $$\n";
    my $code = eval { run($job) };
    print STDERR $@ if $@;
    STDOUT->flush;
    POSIX::_exit($code // 255);    # not exit: that would end what the parent needs still
}
