'use strict';
/** Says whether jobd has sent a request: docs/executors-http.md, Signatures. */
const crypto = require('crypto');

function jobdSigned(secret, request, path = request.url) {
  const told = (name) => request.headers[name] ?? '';
  const signature = /^t=(\d{1,12}),v1=([0-9a-f]{64})$/.exec(told('jobd-signature'));
  if (!signature || Math.abs(Date.now() / 1000 - Number(signature[1])) > 300) return false;
  const names = ['jobd-id', 'jobd-attempt', 'jobd-claim', 'jobd-target', 'jobd-deadline'];
  const lines = [signature[1], request.method, told('host'), path, ...names.map(told)];
  const mac = crypto.createHmac('sha256', secret).update(lines.join('\n')).digest('hex');
  return crypto.timingSafeEqual(Buffer.from(mac), Buffer.from(signature[2]));
}

module.exports = jobdSigned;
