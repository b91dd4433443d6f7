<?php
/** Does with jobd.php what its arguments say, as all drivers here do: see driver_test.go. */
error_reporting(E_ALL);
set_error_handler(function ($level, $text, $file, $line) {
    if (error_reporting() & $level) { // an @ takes warnings out
        throw new ErrorException($text, 0, $level, $file, $line);
    }
    return true;
});
require getenv('CLIENTS') . '/jobd.php';

$limit = (float)getenv('JOBCTL_TIMEOUT');
$jobs = new Jobd([
    'host' => getenv('JOBCTL_HOST') ?: null, 'port' => (int)getenv('JOBCTL_PORT') ?: null,
    'unix' => getenv('JOBCTL_SOCKET') ?: null, 'sockets' => getenv('JOBCTL_SOCKETS') ?: '/run/jobd', 'owner' => (int)getenv('JOBCTL_OWNER'),
    'tls' => getenv('JOBCTL_TLS_CA') ?: getenv('JOBCTL_TLS') === 'verify', 'tlsName' => getenv('JOBCTL_TLS_NAME') ?: null,
    'password' => (string)getenv('JOBCTL_PASSWORD'), 'master' => getenv('JOBCTL_MASTER') === 'true',
    'timeout' => $limit ?: 10, 'pulse' => (float)(getenv('JOBCTL_PULSE') ?: 30),
]);

function enqueue(Jobd $jobs, string $end, string $target, string $status, string $payload): void
{
    $columns = ['status' => $status, 'payload' => $payload];
    if (getenv('APP_DRIVER') === 'mysqli') {
        $db = new mysqli(getenv('APP_HOST'), getenv('APP_USER'), getenv('APP_PASSWORD'), getenv('APP_DATABASE'), (int)getenv('APP_PORT'));
        $db->set_charset('utf8mb4');
        $db->begin_transaction();
        $order = $db->prepare('INSERT INTO orders (text) VALUES (?)');
        $order->bind_param('s', $payload);
        $order->execute();
    } else {
        $db = new PDO(sprintf('mysql:host=%s;port=%s;dbname=%s;charset=utf8mb4', getenv('APP_HOST'), getenv('APP_PORT'),
            getenv('APP_DATABASE')), getenv('APP_USER'), getenv('APP_PASSWORD'));
        $db->beginTransaction();
        $db->prepare('INSERT INTO orders (text) VALUES (?)')->execute([$payload]);
    }
    $id = $jobs->enqueue($db, $target, $columns);
    $end === 'commit' ? $db->commit() : $db->rollBack();
    echo $id, "\n";
}

function targets(array $words): array
{
    $jobs = [];
    foreach ($words as $word) {
        [$id, $target] = explode(':', $word, 2);
        $jobs[(int)$id] = $target;
    }
    return $jobs;
}

[, $command] = $argv;
$words = array_slice($argv, 2);
try {
    switch ($command) {
        case 'enqueue':
            enqueue($jobs, ...$words);
            break;
        case 'poke':
            $jobs->poke(...$words);
            break;
        case 'run':
            $answer = $jobs->run(targets($words), $limit ?: INF);
            echo json_encode(array_map(fn($part) => (object)$part, $answer), JSON_THROW_ON_ERROR), "\n";
            break;
        case 'signal':
            [$id, $target] = explode(':', $words[1], 2);
            echo json_encode($jobs->signal((int)$id, $target, (int)$words[0])), "\n";
            break;
        case 'status':
            echo json_encode($jobs->status(), JSON_THROW_ON_ERROR), "\n";
    }
} catch (JobdException $error) {
    fprintf(STDERR, "%s: %s\n", $error->reason, $error->getMessage());
    exit(3);
}
