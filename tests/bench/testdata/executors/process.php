<?php
require __DIR__ . '/app.php';
exit(run((int) $argv[1]));
