// Runs one job in a process that was started ahead (launcher_mode = spare): what takes time at the
// start is done by then. The process ends with the job, as it would without jobd.
const fs = require('node:fs');
const net = require('node:net');
const readline = require('node:readline');
// const application = require('./application');

/** Runs one job; what it resolves to is the job's exit code. */
async function run(job) {
  console.log(`job ${job}, attempt ${process.env.JOBD_ATTEMPT ?? 1}`);
  return 0;
}

const requests = new net.Socket({ fd: 3 });
readline.createInterface({ input: requests }).once('line', async (line) => {
  requests.destroy();
  const [word, job, , ...variables] = line.split(' ');
  if (word !== 'run') return;
  for (const variable of variables.map(decodeURIComponent)) {
    const [name, ...value] = variable.split('=');
    process.env[name] = value.join('=');
  }
  fs.writeSync(4, `started ${job}\n`);
  process.exitCode = 1; // that of a job which waits for something that never comes
  try {
    process.exitCode = await run(Number(job));
  } catch (error) {
    console.error(`${error?.stack ?? ""}\n${error}`); // the last line says what failed
  }
});
fs.writeSync(4, 'ready\n');
