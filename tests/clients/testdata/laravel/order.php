<?php
require __DIR__ . '/laravel.php';
echo 'job ', (new App\Http\Controllers\OrderController())->store($argv[1], new App\Services\Jobs()), "\n";
