<?php
/** As much of Laravel as the page calls, over a PDO of its own. */

namespace Illuminate\Support\Facades {
    class DB
    {
        private static ?\PDO $pdo = null;
        private static array $afterCommit = [];

        public static function getPdo(): \PDO
        {
            return self::$pdo ??= new \PDO(sprintf('mysql:host=%s;port=%s;dbname=%s;charset=utf8mb4', getenv('APP_HOST'),
                getenv('APP_PORT'), getenv('APP_DATABASE')), getenv('APP_USER'), getenv('APP_PASSWORD'));
        }

        public static function connection(): self
        {
            return new self();
        }

        public static function transaction(callable $do)
        {
            self::getPdo()->beginTransaction();
            try {
                $result = $do();
            } catch (\Throwable $e) {
                self::$afterCommit = [];
                self::getPdo()->rollBack();
                throw $e;
            }
            self::getPdo()->commit();
            foreach (self::$afterCommit as $call) {
                $call();
            }
            return $result;
        }

        public static function afterCommit(callable $call): void
        {
            self::getPdo()->inTransaction() ? self::$afterCommit[] = $call : $call();
        }

        public static function insert(string $statement, array $values): bool
        {
            return self::getPdo()->prepare($statement)->execute($values);
        }

        public static function selectOne(string $statement, array $values): ?object
        {
            $query = self::getPdo()->prepare($statement);
            $query->execute($values);
            return $query->fetch(\PDO::FETCH_OBJ) ?: null;
        }
    }
}

namespace Illuminate\Console {
    abstract class Command
    {
        public array $arguments = [];

        public function argument(string $name)
        {
            return $this->arguments[$name];
        }

        public function line(string $text): void
        {
            echo $text, "\n";
        }

        public function error(string $text): void
        {
            fwrite(STDERR, $text . "\n");
        }
    }
}

namespace {
    function env(string $name, $default = null)
    {
        return getenv($name) === false ? $default : getenv($name);
    }

    function config(string $path)
    {
        [$file, $key] = explode('.', $path);
        return (require __DIR__ . "/config/$file.php")[$key];
    }

    function report(Throwable $e): void
    {
        fwrite(STDERR, 'reported: ' . $e->getMessage() . "\n");
    }

    require __DIR__ . '/jobd.php';
    spl_autoload_register(function (string $class) {
        require __DIR__ . '/app' . str_replace('\\', '/', substr($class, strlen('App'))) . '.php';
    });
}
