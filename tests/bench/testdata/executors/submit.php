<?php
// Submits jobs FIRST to LAST to gearmand in the background.
[, $first, $last] = $argv;
$client = new GearmanClient();
$client->addServer('127.0.0.1', (int) getenv('BENCH_PORT'));
for ($id = (int) $first; $id <= (int) $last; $id++) {
    $client->doBackground('job', (string) $id);
}
