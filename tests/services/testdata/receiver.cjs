const jobdSigned = require(process.env.SIGNED);

require('http').createServer((request, response) => {
  const signed = jobdSigned(process.env.SECRET, request);
  response.statusCode = signed ? 200 : 401;
  response.end(signed ? `job ${request.headers['jobd-id']} of ${request.headers['jobd-target']}` : 'not signed');
}).listen(process.env.PORT, '127.0.0.1');
