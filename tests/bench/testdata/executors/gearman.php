<?php
// A persistent worker of gearmand that runs jobs as launchers do, and updates each one's row as an
// application would that has no jobd. It begins when its stdin says so.
require __DIR__ . '/app.php';

$db = mysqli_init();
$db->real_connect(null, getenv('BENCH_USER'), getenv('BENCH_PASSWORD'), getenv('BENCH_DATABASE'), 0, getenv('BENCH_SOCKET'));
$update = $db->prepare("UPDATE jobs SET status = 'done', result = 'ok', return_code = ?, time_finished = UNIX_TIMESTAMP() WHERE id = ?");
$worker = new GearmanWorker();
$worker->addServer('127.0.0.1', (int) getenv('BENCH_PORT'));
$worker->addFunction('job', static function (GearmanJob $job) use ($update): void {
    $id = (int) $job->workload();
    $code = run($id);
    $update->bind_param('ii', $code, $id);
    $update->execute();
});
echo "ready\n";
fgets(STDIN);
while (@$worker->work());
