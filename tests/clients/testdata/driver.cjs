'use strict';
// Does with jobd.cjs what its arguments say, as all drivers here do: see driver_test.go.
const { env, argv } = process;
const { Jobd, JobdError } = require(`${env.CLIENTS}/jobd.cjs`);

const limit = Number(env.JOBCTL_TIMEOUT || 0);
const jobs = new Jobd({
  host: env.JOBCTL_HOST, port: Number(env.JOBCTL_PORT || 0), password: env.JOBCTL_PASSWORD,
  unix: env.JOBCTL_SOCKET, sockets: env.JOBCTL_SOCKETS, owner: Number(env.JOBCTL_OWNER || 0),
  tls: env.JOBCTL_TLS_CA || env.JOBCTL_TLS === 'verify', tlsName: env.JOBCTL_TLS_NAME,
  master: env.JOBCTL_MASTER === 'true', timeout: limit || 10, pulse: Number(env.JOBCTL_PULSE || 30),
});

const split = (word) => [BigInt(word.slice(0, word.indexOf(':'))), word.slice(word.indexOf(':') + 1)];

async function enqueue(end, target, status, payload) {
  const connection = require('mysql').createConnection({
    host: env.APP_HOST, port: Number(env.APP_PORT), user: env.APP_USER,
    password: env.APP_PASSWORD, database: env.APP_DATABASE, charset: 'utf8mb4',
  });
  const query = (sql, values) => new Promise((resolve, reject) => {
    connection.query(sql, values, (error, result) => (error ? reject(error) : resolve(result)));
  });
  await query('START TRANSACTION');
  await query('INSERT INTO orders (text) VALUES (?)', [payload]);
  const id = await jobs.enqueue(query, target, { status, payload });
  await query(end === 'commit' ? 'COMMIT' : 'ROLLBACK');
  connection.destroy();
  return id;
}

const commands = {
  enqueue,
  poke: (...targets) => jobs.poke(...targets),
  run: (...words) => jobs.run(new Map(words.map(split)), limit || Infinity),
  signal: (number, word) => jobs.signal(...split(word), Number(number)),
  status: () => jobs.status(),
};

commands[argv[2]](...argv.slice(3)).then((answer) => {
  if (answer !== undefined) console.log(JSON.stringify(answer));
}).catch((error) => {
  console.error(error instanceof JobdError ? `${error.code}: ${error.message}` : error);
  process.exit(error instanceof JobdError ? 3 : 1);
});
