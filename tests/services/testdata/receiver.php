<?php
require getenv('SIGNED');
if (!jobd_signed(getenv('SECRET'))) {
    http_response_code(401);
    exit('not signed');
}
echo "job {$_SERVER['HTTP_JOBD_ID']} of {$_SERVER['HTTP_JOBD_TARGET']}";
