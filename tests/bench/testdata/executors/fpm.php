<?php
require __DIR__ . '/app.php';
header('Jobd-Exit-Code: ' . run((int) $_SERVER['JOBD_ID']));
