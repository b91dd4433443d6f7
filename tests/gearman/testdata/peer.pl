# A client and a worker of Perl's Gearman::Client and Gearman::Worker, as peers_test.go says.
use strict;
use warnings;
use Gearman::Client;
use Gearman::Worker;
use Storable qw(thaw);

$| = 1;
my ($role, $port, $prefix, $what, $argument) = @ARGV;

sub pause { select undef, undef, undef, 0.01 }

if ($role eq 'worker') {
    my $worker = Gearman::Worker->new(job_servers => ["127.0.0.1:$port"]);
    my %functions = (
        talk => sub { $_[0]->set_status(1, 2); 'c:' . $_[0]->arg },
        echo => sub { $_[0]->arg },
        fail => sub { undef },
        throw => sub { die "thrown\n" },
        held  => sub {
            my $path = $_[0]->arg;
            open my $runs, '>>', "$path.runs" or die;
            print $runs "run\n";
            close $runs;
            pause() until -e $path;
            'held';
        },
    );
    $worker->register_function("$prefix.$_" => $functions{$_}) for keys %functions;
    $worker->work while 1;
}

my $client = Gearman::Client->new(job_servers => ["127.0.0.1:$port"], exceptions => 1);
if ($what eq 'background') {
    my $handle = $client->dispatch_background("$prefix.held", $argument, {});
    my $status;
    do { pause(); $status = $client->get_status($handle) } until $status && $status->running;
    print "running\n";
    do { pause(); $status = $client->get_status($handle) } while $status && $status->known;
    print "over\n";
    exit;
}
my $sent;
if ($what eq 'echo') {
    my ($size, $n) = ($argument, 0);
    $sent = '';
    $sent .= pack('V', $n++) x 1024 while length $sent < $size;
    $argument = $sent = substr $sent, 0, $size;
}
my $tasks = $client->new_task_set;
$tasks->add_task("$prefix.$what", $argument, {
    uniq => $what eq 'held' ? $prefix : '',
    on_data => sub { print "data ${$_[0]}\n" },
    on_warning => sub { print "warning ${$_[0]}\n" },
    on_status => sub { print "status $_[0]/$_[1]\n" },
    on_exception => sub { print "exception ${thaw($_[0])}" },
    on_fail => sub { print "fail\n" },
    on_complete => sub {
        print 'complete ', defined $sent && ${$_[0]} eq $sent ? length($sent) . ' bytes' : ${$_[0]}, "\n";
    },
});
$tasks->wait;
