const express = require('express');
const jobdSigned = require(process.env.SIGNED);

const app = express();
app.use((request, response, next) => {
  if (!jobdSigned(process.env.SECRET, request, request.originalUrl)) return response.status(401).send('not signed');
  console.log('took', request.get('Jobd-Claim'));
  response.set('Jobd-Claim', request.get('Jobd-Claim'));
  next();
});
const run = express.Router();
run.post('/ok/:id', (request, response) => response.send(`job ${request.params.id}\n`));
run.post('/json/:id', (request, response) => response.status(202).json({ job: request.params.id }));
run.post('/pieces/:id', (request, response) => {
  for (let i = 0; i < 100; i++) response.write(`${i}\n`);
  response.end();
});
run.post('/code/:id', (request, response) => response.set('Jobd-Exit-Code', '7').send('seven'));
run.post('/throws/:id', () => { throw new Error('broken'); });
run.post('/later/:id', (request, response) => response.set('Retry-After', '120').sendStatus(429));
run.post('/away/:id', (request, response) => response.redirect('/jobs/ok/1'));
run.post('/waits/:id', (request, response) => response.on('close', () => console.log('closed', request.params.id)));
run.post('/dies/:id', () => process.exit(1));
app.use('/jobs', run);
app.listen(process.env.PORT, '127.0.0.1');
