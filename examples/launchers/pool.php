<?php
// Runs one job after the other in this process (launcher_mode = pool). What a job leaves behind,
// the next one finds: static variables, open transactions, changed settings. One that calls exit ends
// with that code, and its process is replaced.
// require __DIR__ . '/vendor/autoload.php';

/** Runs one job; what it returns is the job's exit code. */
function run(int $id): int
{
    echo "job $id, attempt ", getenv('JOBD_ATTEMPT') ?: 1, "\n";
    return 0;
}

$requests = @fopen('php://fd/3', 'r');
$answers = @fopen('php://fd/4', 'w');
$requests && stream_set_timeout($requests, -1); // else PHP gives up after default_socket_timeout, 60 s
foreach ([$requests, $answers] as $socket) { // without a mode these numbers are files of PHP's own
    if (!$socket || !in_array(fstat($socket)['mode'] & 0170000, [0140000, 0010000])) { // pipes before 1.1.0
        fwrite(STDERR, "descriptors 3 and 4 are no sockets of jobd: is launcher_mode = pool set?\n");
        exit(1);
    }
}
while (ob_get_level() > 0) { // what was written while loading is no job's
    ob_end_flush();
}
fwrite($answers, "ready\n");
while (($line = fgets($requests)) !== false && $line !== "quit\n") {
    [, $id, , $variables] = explode(' ', rtrim($line), 4) + [3 => ''];
    $variables = array_map('rawurldecode', array_filter(explode(' ', $variables)));
    array_map('putenv', $variables);
    fwrite($answers, "started $id\n");
    try {
        $code = run((int) $id);
    } catch (Throwable $e) {
        fwrite(STDERR, "$e\n" . $e::class . ": {$e->getMessage()}\n"); // the last line says what failed
        $code = 255;
    }
    while (ob_get_level() > 0) {
        ob_end_flush();
    }
    foreach ($variables as $variable) {
        putenv(strtok($variable, '='));
    }
    fwrite($answers, "exit $id " . ($code & 255) . "\n");
}
