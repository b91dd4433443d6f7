"""Says whether jobd has sent a request: docs/executors-http.md, Signatures."""
import hashlib
import hmac
import re
import time


def jobd_signed(secret, method, path, headers):
    signature = re.fullmatch(r"t=(\d{1,12}),v1=([0-9a-f]{64})", headers.get("Jobd-Signature", ""), re.ASCII)
    if not signature or abs(time.time() - int(signature[1])) > 300:
        return False
    names = ["Host", "Jobd-Id", "Jobd-Attempt", "Jobd-Claim", "Jobd-Target", "Jobd-Deadline"]
    host, *told = [headers.get(name, "") for name in names]
    lines = "\n".join([signature[1], method, host, path, *told])
    mac = hmac.new(secret.encode(), lines.encode("latin-1"), hashlib.sha256).hexdigest()
    return hmac.compare_digest(mac, signature[2])
