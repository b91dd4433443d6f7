<?php
/** Says whether jobd has sent this request: docs/executors-http.md, Signatures. */
function jobd_signed(string $secret): bool
{
    $told = fn (string $name): string => $_SERVER["HTTP_JOBD_$name"] ?? '';
    if (!preg_match('/^t=(\d{1,12}),v1=([0-9a-f]{64})$/D', $told('SIGNATURE'), $signature)
        || abs(time() - (int) $signature[1]) > 300) {
        return false;
    }
    $lines = [$signature[1], $_SERVER['REQUEST_METHOD'], $_SERVER['HTTP_HOST'], $_SERVER['REQUEST_URI']];
    foreach (['ID', 'ATTEMPT', 'CLAIM', 'TARGET', 'DEADLINE'] as $name) {
        $lines[] = $told($name);
    }
    return hash_equals(hash_hmac('sha256', implode("\n", $lines), $secret), $signature[2]);
}
