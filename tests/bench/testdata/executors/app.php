<?php
// The application that all of PHP's jobs load: some classes, each in a file of its own, by an
// autoloader. The folder of the classes is made by the benchmark.
spl_autoload_register(static function (string $class): void {
    require getenv('BENCH_CLASSES') . "/$class.php";
});
for ($i = 0; $i < 50; $i++) {
    ("Part$i")::load();
}

/** Runs one job: rings where somebody waits for that. */
function run(int $id): int
{
    if ($bell = getenv('BENCH_BELL')) {
        file_put_contents($bell, "\n");
    }
    return 0;
}
