<?php
// Runs jobs as forks of this process, which has loaded the application once (launcher_mode = fork).
// What is loaded here is loaded for all jobs. Open no connections here: each job opens its own.
// require __DIR__ . '/vendor/autoload.php';

/** Runs one job; what it returns is the job's exit code. */
function run(int $id): int
{
    echo "job $id, attempt ", getenv('JOBD_ATTEMPT') ?: 1, "\n";
    return 0;
}

$requests = fopen('php://fd/3', 'r');
$answers = fopen('php://fd/4', 'w');
fwrite($answers, "ready\n");
while (($line = fgets($requests)) !== false && $line !== "quit\n") {
    [, $id, , $variables] = explode(' ', rtrim($line), 4) + [3 => ''];
    $pid = pcntl_fork();
    if ($pid < 0) {
        fwrite($answers, "refused $id\n");
    } elseif ($pid > 0) {
        pcntl_waitpid($pid, $status);
        fwrite($answers, "ended $id $status\n");
    } else {
        posix_setpgid(0, 0);
        foreach (array_filter(explode(' ', $variables)) as $variable) {
            putenv(rawurldecode($variable));
        }
        fwrite($answers, "started $id " . getmypid() . "\n");
        try {
            exit(run((int) $id));
        } catch (Throwable $e) {
            fwrite(STDERR, "$e\n" . $e::class . ": {$e->getMessage()}\n"); // the last line says what failed
            exit(255);
        }
    }
}
