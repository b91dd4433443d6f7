<?php
// Runs a job in php-fpm: launcher = fastcgi:/run/php/php-fpm.sock /srv/app/fastcgi.php
// require __DIR__ . '/vendor/autoload.php';

/** Runs one job; what it returns is the job's exit code. */
function run(int $id): int
{
    echo "job $id, attempt ", $_SERVER['JOBD_ATTEMPT'], "\n";
    return 0;
}

if (time() > ($_SERVER['JOBD_DEADLINE'] ?? PHP_INT_MAX)) {
    exit; // it has waited for a free process for so long that jobd has given it up
}
ob_start(); // what was sent can't be followed by a header
try {
    $code = run((int) $_SERVER['JOBD_ID']);
} catch (Throwable $e) {
    error_log("$e\n" . $e::class . ": {$e->getMessage()}"); // the last line says what failed
    $code = 255;
}
header("Jobd-Exit-Code: $code"); // the last thing: a job that dies before has not come to its end
