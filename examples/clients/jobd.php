<?php
/**
 * A client of jobd for PHP 8.2 and newer: one file, nothing else is needed. Copy it.
 *
 *     $jobs = new Jobd(['password' => 'something long']);    // a master on this host
 *     $id = $jobs->enqueue($pdo, 'mail', ['payload' => '…']);   // a row, in your transaction
 *     $pdo->commit();
 *     $jobs->poke('mail');                          // after COMMIT: nobody sees the row earlier
 *
 * A Jobd keeps no connection: each request makes its own. docs/clients.md says more,
 * docs/protocol.md what else a daemon can be asked.
 */

/**
 * What went wrong. reason is jobd's code (docs/protocol.md), or one of the client's: unreachable
 * (nothing was asked), timeout and lost (it may have been done), nonsense (this is no jobd).
 */
class JobdException extends RuntimeException
{
    public function __construct(string $text, public readonly string $reason)
    {
        parent::__construct($text);
    }
}

class Jobd
{
    const EXACT = 2 ** 53 - 1;    // an id beyond it goes as a string: many would round the number
    const SHORT = 0.3;            // seconds that one of several daemons may take for a ping or a poke, while others follow
    const LONGEST = 64 << 20;     // bytes of an answer
    const OBJECTS = ['run-manual', 'send-signal', 'status']; // are answered with an object

    public ?string $host = null;      // 127.0.0.1; of masters also several: a, b:7082, [::1]:7081
    public ?int $port = null;         // 7081, a worker's 7080
    public ?string $unix = null;      // path of a socket, in place of host and port
    public string $sockets = '/run/jobd'; // where one is tried first if none of these is set
    public ?int $owner = null;        // uid to which sockets may belong beside root and this account
    public string|bool $tls = false;  // file of the authorities that vouch for the daemon; true: the system's
    public ?string $tlsName = null;   // that the daemon's certificate must have; the host
    public string $password = '';     // or a token
    public bool $master = true;       // false: a worker listens there
    public float $timeout = 10;       // seconds
    public float $pulse = 30;         // seconds of silence after which the daemon must answer a ping

    private ?string $near = null;     // the socket that is tried first
    private array $several = [];      // a Jobd for each of several hosts
    private bool $others = false;     // follow it in a list

    public function __construct(array $settings = [])
    {
        foreach ($settings as $name => $value) {
            if (!property_exists($this, $name)) {
                throw new InvalidArgumentException("Jobd has no setting '$name'");
            }
            $this->$name = $value;
        }
        $here = $this->sockets . ($this->master ? '/jobd-master.sock' : '/jobd.sock');
        $this->near = $this->unix ?? (isset($this->host) || isset($this->port) ? null : $here);
        $this->host ??= '127.0.0.1';
        $this->port ??= $this->master ? 7081 : 7080;
        foreach (str_contains($this->host, ',') && $this->unix === null ? explode(',', $this->host) : [] as $host) {
            if (!preg_match('/^(\[.+\]|[^:]+)(?::(\d+))?$/', trim($host), $parts)) {
                throw new InvalidArgumentException("'$host' is no host: a, b:7082 and [::1]:7081 are");
            }
            $one = clone $this;
            [$one->host, $one->port] = [trim($parts[1], '[]'), (int)($parts[2] ?? $this->port)];
            $one->others = count($several ?? []) < substr_count($this->host, ',');
            $several[] = $one;
        }
        $this->several = $several ?? [];
    }

    /**
     * Inserts a row through PDO or mysqli, in the transaction that is open there, and gives its id.
     * columns: the row's others, as ['status' => 'manual'] or your own.
     */
    public function enqueue($db, string $target, array $columns = [], string $table = 'jobs'): int
    {
        $row = $columns + ['target' => $target, 'time_created' => time()];
        $insert = $db->prepare(sprintf('INSERT INTO %s (%s) VALUES (%s)', self::quoted(...explode('.', $table)),
            implode(', ', array_map(self::quoted(...), array_keys($row))),
            implode(', ', array_fill(0, count($row), '?'))));
        $values = array_map(fn($value) => is_bool($value) ? (int)$value : $value, array_values($row));
        if (!$insert || !$insert->execute($values)) {
            throw new RuntimeException('insert a job: ' . ($db instanceof mysqli ? $db->error
                : implode(' ', ($insert ?: $db)->errorInfo())));
        }
        return (int)($db instanceof mysqli ? $insert->insert_id : $db->lastInsertId());
    }

    /** Tells the workers that rows of these targets wait. Call it after COMMIT. */
    public function poke(string ...$targets): void
    {
        $this->request($this->master ? 'poke' : 'poll', ['targets' => $targets]);
    }

    /**
     * Runs rows whose status is manual, [id => target], and waits until they ended: for as long
     * as it takes, if timeout says nothing else. Gives ['jobs' => [id => [result, code, signal,
     * stdout, stderr]], 'errors' => [id => why it did not run]].
     */
    public function run(array $jobs, float $timeout = INF): array
    {
        $ids = array_map(self::number(...), array_keys($jobs));
        $named = array_map(fn($id, $target) => ['id' => $id, 'target' => $target], $ids, array_values($jobs));
        $data = $this->master ? ['jobs' => $named] : ['ids' => $ids];
        $answer = $this->request('run-manual', $data, $timeout);
        $parts = ['jobs' => $answer['jobs'] ?? [], 'errors' => $answer['errors'] ?? []];
        if (!is_array($parts['jobs']) || !is_array($parts['errors'])) {
            throw $this->nonsense('run-manual', json_encode($answer));
        }
        return $parts + $answer;
    }

    /** Sends a running job a signal, as 15; true if it was delivered. */
    public function signal(int $id, string $target, int $number): bool
    {
        $named = [['id' => self::number($id), 'target' => $target, 'signal' => $number]];
        $answer = $this->request('send-signal', ['jobs' => $this->master ? $named : (object)[$id => $number]]);
        $errors = $answer['errors'] ?? [];
        if (!is_array($errors) || !is_string($errors[$id] ?? '')) {
            throw $this->nonsense('send-signal', json_encode($answer));
        }
        if (isset($errors[$id])) {
            throw new JobdException($errors[$id], 'refused');
        }
        return ($answer[$id] ?? false) === true;
    }

    /** What the worker, or the master and all its workers, tell of themselves. */
    public function status(): array
    {
        return $this->request('status', $this->master ? ['poll_workers' => true] : null);
    }

    /**
     * Asks anything of docs/protocol.md and gives the answer's data. Of several daemons the first that
     * answers a ping is asked, and no other one what that one may have been asked; a poke goes to all,
     * since what one has taken is lost with it.
     */
    public function request(string $type, ?array $data = null, ?float $timeout = null)
    {
        $timeout ??= $this->timeout;
        $pokes = $type === 'poke' || $type === 'poll';
        foreach ($this->several as $one) {
            try {
                $told[] = $one->request($type, $data, $pokes && ($one->others || isset($told)) ? self::SHORT : $timeout);
            } catch (JobdException $failed) {
            }
            if (!$pokes && (isset($told) || $failed->reason !== 'unreachable')) {
                break;
            }
        }
        if ($this->several) {
            return isset($told) ? $told[0] : throw $failed;
        }
        $deadline = microtime(true) + $timeout;
        $body = ['no' => 1, 'type' => $type, 'data' => $data, 'password' => $this->password];
        $message = self::encoded([0, $body, 'codes']);
        if (strlen($message) > 60000) { // what is longer is taken only from those who gave the password
            $proof = ['no' => 2, 'type' => 'status', 'data' => null] + $body;
            $message = self::encoded([0, $proof, 'codes']) . $message;
        }
        $link = $this->connect(min($timeout, $this->timeout, $this->others ? self::SHORT : INF));
        if ($this->others) { // a process that is stopped takes connections, too
            $this->send($link, "[2]\x04", $type);
            [$read, $write, $except] = [[$link], null, null];
            if (!@stream_select($read, $write, $except, 0, (int)(self::SHORT * 1e6)) || @fread($link, 4) !== "[3]\x04") {
                fclose($link);
                throw $this->error("can't be reached: it answers no ping", 'unreachable');
            }
        }
        try {
            $this->send($link, $message, $type);
            foreach ($this->messages($link, $type, $deadline) as $items) {
                $answer = is_array($items[1] ?? null) ? $items[1] : [];
                if ($items[0] === 2) {
                    $this->send($link, "[3]\x04", $type);
                } elseif ($items[0] === 1 && isset($answer['error'])) { // there is nothing else it could be about
                    $text = is_string($answer['error']) ? $answer['error'] : json_encode($answer['error']);
                    throw $this->error("refuses $type: $text", is_string($answer['code'] ?? null) ? $answer['code'] : 'refused');
                } elseif ($items[0] === 1 && ($answer['no'] ?? null) === 1) {
                    $told = $answer['data'] ?? null;
                    if (in_array($type, self::OBJECTS, true) && (!is_array($told) || array_key_exists(0, $told))) {
                        throw $this->nonsense($type, json_encode($told));
                    }
                    return $told;
                }
            }
        } finally {
            fclose($link);
        }
    }

    private function connect(float $timeout)
    {
        $missed = '';
        if ($this->near !== null) {
            $why = 'it, or its folder, belongs to another account';
            $mine = [0, $this->owner ?? 0, function_exists('posix_geteuid') ? posix_geteuid() : 0];
            clearstatcache(true, $this->near); // a password goes to nobody who took the socket's place
            if (!file_exists($this->near)) {
                $why = 'no such file';
            } elseif (in_array(fileowner($this->near), $mine, true) && in_array(fileowner(dirname($this->near)), $mine, true)) {
                if ($link = @stream_socket_client("unix://$this->near", $number, $why, $timeout)) {
                    return $link;
                }
            }
            if ($this->unix !== null) {
                throw $this->error("can't be reached: $why", 'unreachable');
            }
            $missed = "; nor at $this->near: $why";
        }
        $host = str_contains($this->host, ':') ? "[$this->host]" : $this->host;
        $verify = ['verify_peer' => true, 'verify_peer_name' => true, 'allow_self_signed' => false, 'peer_name' => $this->tlsName ?? $this->host];
        $context = stream_context_create(['ssl' => $verify + (is_string($this->tls) ? ['cafile' => $this->tls] : [])]);
        $said = []; // why a handshake fails PHP tells in warnings only
        set_error_handler(function ($level, $text) use (&$said) { return $said[] = $text; });
        try {
            $link = stream_socket_client(($this->tls ? 'tls' : 'tcp') . "://$host:$this->port", $number, $error, $timeout, STREAM_CLIENT_CONNECT, $context);
        } finally {
            restore_error_handler();
        }
        return $link ?: throw $this->error("can't be reached: " . ($error ?: implode('; ', $said)) . $missed, 'unreachable');
    }

    /** Writes all of it: fwrite comes back early only where the connection is gone, or blocks for too long. */
    private function send($link, string $message, string $type): void
    {
        stream_set_timeout($link, (int)ceil($this->timeout));
        if (@fwrite($link, $message) !== strlen($message)) {
            throw $this->error("was lost before it answered $type", 'lost');
        }
    }

    /** The messages that come until the deadline, each as a list. */
    private function messages($link, string $type, float $deadline): Generator
    {
        [$pieces, $length, $pinged] = [[], 0, false];
        while (($left = $deadline - microtime(true)) > 0) {
            $wait = min($left, $this->pulse);
            [$read, $write, $except] = [[$link], null, null];
            $ready = @stream_select($read, $write, $except, (int)$wait, (int)(fmod($wait, 1) * 1e6));
            if (!$ready) { // false: a signal came
                if ($ready === 0 && $wait < $left) {
                    if ($pinged) {
                        throw $this->error("answers neither $type nor a ping", 'lost');
                    }
                    $this->send($link, "[2]\x04", $type);
                    $pinged = true;
                }
                continue;
            }
            $chunk = @fread($link, 1 << 16);
            if ($chunk === '' && !feof($link)) { // of TLS: no data
                continue;
            }
            if ($chunk === false || $chunk === '') {
                if (!in_array(ltrim(implode('', $pieces))[0] ?? '', ['', '['], true)) {
                    throw $this->nonsense($type, implode('', $pieces));
                }
                throw $this->error("closed the connection before it answered $type", 'lost');
            }
            [$pinged, $length] = [false, $length + strlen($chunk)];
            if ($length > self::LONGEST) {
                throw $this->error("answers $type with more than " . self::LONGEST . ' bytes', 'nonsense');
            }
            $pieces[] = $chunk;
            if (!str_contains($chunk, "\x04")) {
                continue;
            }
            $messages = explode("\x04", implode('', $pieces));
            $pieces = [array_pop($messages)];
            foreach ($messages as $message) {
                $items = json_decode($message, true);
                if (!is_array($items) || !isset($items[0])) {
                    throw $this->nonsense($type, $message);
                }
                yield $items;
            }
        }
        throw $this->error("did not answer $type in time", 'timeout');
    }

    private function nonsense(string $type, string $what): JobdException
    {
        $shown = json_encode(substr($what, 0, 80), JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES);
        return $this->error("answers $type with what is no message: $shown", 'nonsense');
    }

    private function error(string $text, string $reason): JobdException
    {
        return new JobdException(($this->master ? 'jobd-master' : 'jobd') . ' at ' . ($this->unix ?? "$this->host:$this->port") . " $text", $reason);
    }

    private static function encoded(array $message): string
    {
        return json_encode($message, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES) . "\x04";
    }

    private static function number(int $id)
    {
        return abs($id) <= self::EXACT ? $id : (string)$id;
    }

    private static function quoted(string ...$names): string
    {
        if (preg_grep('/^$|[`%?:]/', $names)) {
            throw new InvalidArgumentException(implode('.', $names) . ' is no name of a column or table');
        }
        return '`' . implode('`.`', $names) . '`';
    }
}
