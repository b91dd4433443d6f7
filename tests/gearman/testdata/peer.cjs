// A client and a worker of gearmanode, as peers_test.go says.
const fs = require('fs');
const winston = require('winston');

winston.remove(winston.transports.Console); // stdout is what the test reads
const gearmanode = require('gearmanode');
for (const logger of Object.values(winston.loggers.loggers)) {
  for (const transport of Object.values(logger.transports)) transport.silent = true;
}

const [, , role, port, prefix, what, text] = process.argv;
const server = { host: '127.0.0.1', port: Number(port) };
const pause = (then) => setTimeout(then, 10);

function work() {
  const worker = gearmanode.worker(server);
  worker.on('error', (e) => console.error('work:', e));
  const functions = {
    talk(job) {
      job.sendWorkData('d:' + job.payload);
      job.reportWarning('w');
      job.reportStatus(1, 2);
      job.workComplete('c:' + job.payload);
    },
    echo(job) { job.workComplete(job.payload); },
    fail(job) { job.reportError(); },
    throw(job) { job.reportException('thrown'); },
    held(job) {
      const path = job.payload.toString();
      fs.appendFileSync(path + '.runs', 'run\n');
      const look = () => (fs.existsSync(path) ? job.workComplete('held') : pause(look));
      look();
    },
  };
  for (const name of Object.keys(functions)) worker.addFunction(prefix + '.' + name, functions[name]);
}

function ask() {
  const client = gearmanode.client(server);
  client.on('error', (e) => { console.error(e); process.exit(1); });
  if (what === 'background') {
    const job = client.submitJob(prefix + '.held', text, { background: true });
    let seen = false;
    job.on('created', () => job.getStatus());
    job.on('status', (s) => {
      if (!seen && s.running) {
        seen = true;
        console.log('running');
      }
      if (seen && !s.known) {
        console.log('over');
        return client.close();
      }
      pause(() => job.getStatus());
    });
    return;
  }
  let sent = Buffer.from(text);
  if (what === 'echo') {
    sent = Buffer.alloc(Number(text));
    for (let i = 0; i < sent.length; i++) sent[i] = 97 + (i * 31 + Math.floor(i / 4096)) % 26; // it makes text of results
  }
  const begin = () => {
    const job = client.submitJob(prefix + '.' + what, sent, what === 'held' ? { unique: prefix } : {});
    const over = (line) => {
      console.log(line);
      client.close();
    };
    job.on('workData', (d) => console.log('data ' + d));
    job.on('warning', (d) => console.log('warning ' + d));
    job.on('status', (s) => console.log('status ' + s.percent_done_num + '/' + s.percent_done_den));
    job.on('exception', (d) => over('exception ' + d));
    job.on('failed', () => over('fail'));
    job.on('complete', () => {
      const same = what === 'echo' && sent.equals(job.response);
      over('complete ' + (same ? sent.length + ' bytes' : job.response));
    });
  };
  if (what !== 'throw') return begin();
  client.jobServers[0].once('option', begin);
  client.jobServers[0].setOption('exceptions');
}

role === 'worker' ? work() : ask();
