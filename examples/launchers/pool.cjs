// Runs one job after the other in this process (launcher_mode = pool). What a job leaves behind, the
// next one finds: globals, timers, open transactions. One that calls process.exit ends with that code,
// and its process is replaced.
const fs = require('node:fs');
const net = require('node:net');
const readline = require('node:readline');
// const application = require('./application');

/** Runs one job; what it resolves to is the job's exit code. */
async function run(job) {
  console.log(`job ${job}, attempt ${process.env.JOBD_ATTEMPT ?? 1}`);
  return 0;
}

const written = (stream) => new Promise((done) => stream.write('', done));
const requests = new net.Socket({ fd: 3 });
readline.createInterface({ input: requests }).on('line', async (line) => {
  const [word, job, , ...variables] = line.split(' ');
  if (word !== 'run') return requests.destroy();
  const pairs = variables.map(decodeURIComponent).map((v) => [v.split('=', 1)[0], v.slice(v.indexOf('=') + 1)]);
  for (const [name, value] of pairs) process.env[name] = value;
  fs.writeSync(4, `started ${job}\n`);
  let code = 1;
  try {
    code = await run(Number(job));
  } catch (error) {
    console.error(`${error?.stack ?? ""}\n${error}`); // the last line says what failed
  }
  for (const [name] of pairs) delete process.env[name];
  await written(process.stdout);
  await written(process.stderr);
  fs.writeSync(4, `exit ${job} ${code & 255}\n`);
});
fs.writeSync(4, 'ready\n');
