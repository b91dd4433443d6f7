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

foreach (['pcntl_fork', 'pcntl_waitpid', 'posix_setpgid'] as $function) {
    if (!function_exists($function)) {
        fwrite(STDERR, "PHP has no $function: it needs the extension " . strtok($function, '_') . "\n");
        exit(1);
    }
}
$requests = @fopen('php://fd/3', 'r');
$answers = @fopen('php://fd/4', 'w');
$requests && stream_set_timeout($requests, -1); // else PHP gives up after default_socket_timeout, 60 s
foreach ([$requests, $answers] as $socket) { // without a mode these numbers are files of PHP's own
    if (!$socket || !in_array(fstat($socket)['mode'] & 0170000, [0140000, 0010000])) { // pipes before 1.1.0
        fwrite(STDERR, "descriptors 3 and 4 are no sockets of jobd: is launcher_mode = fork set?\n");
        exit(1);
    }
}
while (ob_get_level() > 0) { // what was written while loading is no job's
    ob_end_flush();
}
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
