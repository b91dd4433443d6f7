<?php
// A client and a worker of php-gearman, as peers_test.go says.
[, $role, $port, $prefix] = $argv;

if ($role === 'worker') {
    $worker = new GearmanWorker();
    $worker->addServer('127.0.0.1', (int) $port);
    $functions = [
        'talk' => function (GearmanJob $job) {
            $job->sendData('d:' . $job->workload());
            $job->sendWarning('w');
            $job->sendStatus(1, 2);
            return 'c:' . $job->workload();
        },
        'echo' => fn (GearmanJob $job) => $job->workload(),
        'fail' => function (GearmanJob $job) {
            $job->setReturn(GEARMAN_WORK_FAIL);
        },
        'throw' => function (GearmanJob $job) {
            $job->sendException('thrown');
            $job->setReturn(GEARMAN_WORK_EXCEPTION);
        },
        'held' => function (GearmanJob $job) {
            file_put_contents($job->workload() . '.runs', "run\n", FILE_APPEND);
            while (!file_exists($job->workload())) {
                usleep(10000);
                clearstatcache();
            }
            return 'held';
        },
    ];
    foreach ($functions as $name => $run) {
        $worker->addFunction("$prefix.$name", $run, null, 300_000);
    }
    if (getenv('NON_BLOCKING')) { // as the workers of GearmanManager do
        $worker->addOptions(GEARMAN_WORKER_NON_BLOCKING);
        $worker->setTimeout(5000);
    }
    while (getenv('NON_BLOCKING')) {
        if (!@$worker->work() && in_array($worker->returnCode(), [GEARMAN_IO_WAIT, GEARMAN_NO_JOBS])) {
            @$worker->wait();
        }
    }
    while (true) {
        if (!@$worker->work()) {
            fwrite(STDERR, 'work: ' . $worker->error() . "\n");
        }
    }
}

[, , , , $what, $argument] = $argv;
$client = new GearmanClient();
$client->addServer('127.0.0.1', (int) $port);
$client->enableExceptionHandler();
$sent = null;
function say(string $line): int
{
    echo $line, "\n";
    return GEARMAN_SUCCESS;
}
$client->setDataCallback(fn (GearmanTask $task) => say("data {$task->data()}"));
$client->setWarningCallback(fn (GearmanTask $task) => say("warning {$task->data()}"));
$client->setStatusCallback(fn (GearmanTask $task) => say("status {$task->taskNumerator()}/{$task->taskDenominator()}"));
$client->setExceptionCallback(fn (GearmanTask $task) => say("exception {$task->data()}"));
$client->setFailCallback(fn (GearmanTask $task) => say("fail"));
$client->setCompleteCallback(function (GearmanTask $task) use (&$sent) {
    return say('complete ' . ($task->data() === $sent ? strlen($sent) . ' bytes' : $task->data()));
});
switch ($what) {
    case 'background':
        $handle = $client->doBackground("$prefix.held", $argument);
        do {
            [$known, $running] = $client->jobStatus($handle);
            usleep(10000);
        } while (!$running);
        echo "running\n";
        do {
            [$known] = $client->jobStatus($handle);
            usleep(10000);
        } while ($known);
        echo "over\n";
        exit;
    case 'echo':
        $sent = '';
        for ($i = 0; strlen($sent) < (int) $argument; $i++) {
            $sent .= str_repeat(pack('V', $i), 1024);
        }
        $argument = $sent = substr($sent, 0, (int) $argument);
        break;
}
$client->addTask("$prefix.$what", $argument, null, $what === 'held' ? $prefix : null);
if (!$client->runTasks()) {
    fwrite(STDERR, $client->error() . "\n");
    exit(1);
}
