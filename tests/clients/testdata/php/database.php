<?php
$pdo = new PDO(sprintf('mysql:host=%s;port=%s;dbname=%s;charset=utf8mb4', getenv('APP_HOST'), getenv('APP_PORT'),
    getenv('APP_DATABASE')), getenv('APP_USER'), getenv('APP_PASSWORD'));
