'use strict';
/**
 * A client of jobd for Node.js 18 and newer: one file, nothing else is needed. Copy it.
 *
 *     const { Jobd } = require('./jobd.cjs');            // or: import { Jobd } from './jobd.cjs'
 *     const jobs = new Jobd({ password: 'something long' });    // a master on this host
 *     const query = (sql, values) => connection.execute(sql, values);
 *     await jobs.enqueue(query, 'mail', { payload: '…' });      // a row, in your transaction
 *     await connection.commit();
 *     await jobs.poke('mail');                   // after COMMIT: nobody sees the row earlier
 *
 * A Jobd keeps no connection: each request makes its own. docs/clients.md says more,
 * docs/protocol.md what else a daemon can be asked.
 */
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const tls = require('node:tls');

const EOT = 4;              // the byte that ends each message
const SHORT = 0.3;          // seconds that one of several daemons may take for a ping or a poke, while others follow
const LONGEST = 64 << 20;   // bytes of an answer
const OBJECTS = ['run-manual', 'send-signal', 'status']; // are answered with an object

/**
 * What went wrong. code is jobd's (docs/protocol.md), or one of the client's own: unreachable
 * (nothing was asked), timeout and lost (it may have been done), nonsense (this is no jobd).
 */
class JobdError extends Error {
  constructor(text, code) {
    super(text);
    this.name = 'JobdError';
    this.code = code;
  }
}

class Jobd {
  /**
   * master: false where a worker (7080) listens, and not a master (7081). timeout: in seconds.
   * pulse: seconds of silence after which the daemon must answer a ping. unix: path of a socket, in
   * place of host and port; of masters host may name several, 'a, b:7082, [::1]:7081'; where none of the three is given, one in the folder sockets is tried
   * first. owner: a uid to which sockets may belong beside root and this account. tls: a file of the
   * authorities that vouch for the daemon at host and port, or true: Node's own. tlsName: the name that
   * its certificate must have, in place of the host. password: or a token.
   */
  constructor({ host, port, unix, sockets = '/run/jobd', owner = 0, tls: ca = false, tlsName, password = '', master = true, timeout = 10, pulse = 30 } = {}) {
    const near = unix || (host || port ? undefined : path.join(sockets, master ? 'jobd-master.sock' : 'jobd.sock'));
    this.several = (!unix && host?.includes(',') ? host.split(',') : []).map((text, i, all) => {
      const [, name, own] = /^(\[.+\]|[^:]+)(?::(\d+))?$/.exec(text.trim()) ?? [];
      if (!name) throw new RangeError(`${text} is no host: a, b:7082 and [::1]:7081 are`);
      const one = new Jobd({ host: name.replace(/[[\]]/g, ''), port: Number(own || 0) || port, tls: ca, tlsName, password, master, timeout, pulse });
      one.others = i < all.length - 1;
      return one;
    });
    Object.assign(this, { host: host || '127.0.0.1', port: port || (master ? 7081 : 7080), unix, near, owner, ca, tlsName, password, master, timeout, pulse });
  }

  /** A connection to host and port, and the event that says that it may be used. */
  reach() {
    const { host, port, tlsName: name = host } = this;
    if (!this.ca) return [net.connect({ host, port }), 'connect'];
    try {
      const ca = this.ca === true ? undefined : fs.readFileSync(this.ca);
      return [tls.connect({
        host, port, ca, rejectUnauthorized: true, servername: net.isIP(name) ? '' : name,
        checkServerIdentity: (_, cert) => tls.checkServerIdentity(name, cert),
      }), 'secureConnect'];
    } catch (error) {
      throw this.error(`can't be reached: ${error.message}`, 'unreachable');
    }
  }

  /** A connection to the socket that is tried first; a password goes to nobody who took its place. */
  async socket() {
    this.missed = '';
    if (!this.near) return undefined;
    try {
      const mine = [0, this.owner, process.geteuid?.()];
      if (![this.near, path.dirname(this.near)].every((name) => mine.includes(fs.statSync(name).uid))) {
        throw new Error('it, or its folder, belongs to another account');
      }
      return await new Promise((resolve, reject) => {
        const link = net.connect(this.near);
        link.once('error', reject).once('connect', () => resolve(link.off('error', reject)));
      });
    } catch (error) {
      if (this.unix) throw this.error(`can't be reached: ${error.message}`, 'unreachable');
      this.missed = `; nor at ${this.near}: ${error.message}`;
      return undefined;
    }
  }

  /**
   * Inserts a row, in the transaction that is open on your connection, and gives its id. query runs
   * a statement with ? for each value there, and gives, or promises, what your driver says of it.
   * columns: the row's others, as { status: 'manual' } or your own.
   */
  async enqueue(query, target, columns = {}, table = 'jobs') {
    const row = { target, time_created: Math.floor(Date.now() / 1000), ...columns };
    const names = Object.keys(row);
    const told = await query(
      `INSERT INTO ${quoted(...table.split('.'))} (${names.map((name) => quoted(name)).join(', ')})` +
      ` VALUES (${names.map(() => '?').join(', ')})`, Object.values(row));
    const result = Array.isArray(told) ? told[0] : told;
    const id = result?.insertId ?? result?.lastInsertRowid ?? result?.lastID;
    if (id === undefined) throw new TypeError('query gives no insertId: give what your driver says of the statement');
    return id;
  }

  /** Tells the workers that rows of these targets wait. Call it after COMMIT. */
  async poke(...targets) {
    await this.request(this.master ? 'poke' : 'poll', { targets });
  }

  /**
   * Runs rows whose status is manual, as { 42: 'mail' } or a Map, and waits until they have ended:
   * for as long as it takes, if timeout says nothing else. Gives { jobs: { id: { result, code,
   * signal, stdout, stderr } }, errors: { id: why it did not run } }.
   */
  async run(jobs, timeout = Infinity) {
    const all = [...(jobs instanceof Map ? jobs : Object.entries(jobs))];
    const data = this.master
      ? { jobs: all.map(([id, target]) => ({ id: number(id), target })) }
      : { ids: all.map(([id]) => number(id)) };
    const answer = await this.request('run-manual', data, timeout);
    const [told, errors] = [answer.jobs ?? {}, answer.errors ?? {}];
    if (!isObject(told) || !isObject(errors)) throw this.error(...nonsense('run-manual', JSON.stringify(answer)));
    return { ...answer, jobs: told, errors };
  }

  /** Sends a running job a signal, as 15; true if it was delivered. */
  async signal(id, target, signo) {
    const jobs = this.master ? [{ id: number(id), target, signal: signo }] : { [id]: signo };
    const answer = await this.request('send-signal', { jobs });
    if (!isObject(answer.errors ?? {})) throw this.error(...nonsense('send-signal', JSON.stringify(answer)));
    if (answer.errors?.[id]) throw new JobdError(answer.errors[id], 'refused');
    return answer[id] === true;
  }

  /** What the worker, or the master and all its workers, tell of themselves. */
  status() {
    return this.request('status', this.master ? { poll_workers: true } : null);
  }

  /**
   * Asks anything of docs/protocol.md and gives the answer's data. Of several daemons the first that
   * answers a ping is asked, and no other one what that one may have been asked; a poke goes to all,
   * since what one has taken is lost with it.
   */
  async request(type, data = null, timeout = this.timeout) {
    const pokes = ['poke', 'poll'].includes(type);
    const [told, failed] = [[], []];
    for (const one of this.several) {
      try {
        told.push(await one.request(type, data, pokes && (one.others || told.length) ? SHORT : timeout));
      } catch (error) {
        failed.push(error);
      }
      if (!pokes && (told.length || failed.at(-1).code !== 'unreachable')) break;
    }
    if (told.length) return told[0];
    if (this.several.length) throw failed.at(-1);
    const body = { no: 1, type, data, password: this.password };
    let message = encoded([0, body, 'codes']);
    if (message.length > 60000) { // what is longer is taken only from those who gave the password
      message = Buffer.concat([encoded([0, { ...body, no: 2, type: 'status', data: null }, 'codes']), message]);
    }
    const socket = await this.socket();
    return new Promise((resolve, reject) => {
      const [link, ready] = socket ? [socket] : this.reach();
      const timers = {};
      const end = (settle, value) => {
        Object.values(timers).forEach(clearTimeout);
        link.destroy();
        settle(value);
      };
      const fail = (text, code) => end(reject, this.error(text, code));
      const listen = () => { // for a while; then for the answer to a ping
        clearTimeout(timers.pulse);
        timers.pulse = setTimeout(() => {
          link.write('[2]\x04');
          timers.pulse = setTimeout(fail, this.pulse * 1000, `answers neither ${type} nor a ping`, 'lost');
        }, this.pulse * 1000);
      };
      timers.connect = setTimeout(fail, Math.min(timeout, this.timeout, this.others ? SHORT : Infinity) * 1000, "can't be reached: timed out", 'unreachable');
      if (timeout < 2 ** 31 / 1000) { // setTimeout takes no more
        timers.all = setTimeout(fail, timeout * 1000, `did not answer ${type} in time`, 'timeout');
      }
      let connected = false;
      const begin = () => {
        if (this.others) link.write('[2]\x04'); // a process that is stopped takes connections, too
        else send();
      };
      const send = () => {
        connected = true;
        clearTimeout(timers.connect);
        link.write(message);
        listen();
      };
      if (socket) begin();
      else link.on(ready, begin);
      link.on('error', (error) => (connected
        ? fail(`was lost before it answered ${type}: ${error.message}`, 'lost')
        : fail(`can't be reached: ${error.message || error.code}${this.missed}`, 'unreachable')));
      let [pieces, length] = [[], 0];
      link.on('end', () => {
        const rest = Buffer.concat(pieces).toString().trimStart();
        if (!connected) fail("can't be reached: it answers no ping", 'unreachable');
        else if (rest && rest[0] !== '[') fail(...nonsense(type, rest));
        else fail(`closed the connection before it answered ${type}`, 'lost');
      });
      link.on('data', (chunk) => {
        if (connected) listen();
        length += chunk.length;
        if (length > LONGEST) fail(`answers ${type} with more than ${LONGEST} bytes`, 'nonsense');
        for (let at; !link.destroyed && (at = chunk.indexOf(EOT)) >= 0; chunk = chunk.subarray(at + 1)) {
          const text = Buffer.concat([...pieces, chunk.subarray(0, at)]).toString();
          pieces = [];
          const [kind, answer] = parsed(text);
          if (!connected && kind === 3) send();
          else if (kind === undefined) fail(...nonsense(type, text));
          else if (kind === 2) link.write('[3]\x04');
          else if (kind !== 1 || !answer) continue;
          else if (answer.error) fail(`refuses ${type}: ${typeof answer.error === 'string' ? answer.error : JSON.stringify(answer.error)}`, typeof answer.code === 'string' ? answer.code : 'refused');
          else if (answer.no !== 1) continue;
          else if (OBJECTS.includes(type) && !isObject(answer.data)) fail(...nonsense(type, text));
          else end(resolve, answer.data);
        }
        pieces.push(chunk);
      });
    });
  }

  error(text, code) {
    return new JobdError(`${this.master ? 'jobd-master' : 'jobd'} at ${this.unix || `${this.host}:${this.port}`} ${text}`, code);
  }
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const nonsense = (type, what) => [`answers ${type} with what is no message: ${JSON.stringify(what.slice(0, 80))}`, 'nonsense'];

const encoded = (message) => Buffer.from(JSON.stringify(message) + '\x04');

function parsed(text) {
  try {
    const items = JSON.parse(text);
    return Array.isArray(items) ? items : [];
  } catch {
    return [];
  }
}

/** An id on the wire: JavaScript can't hold one beyond 2⁵³−1 exactly, so that is a string. */
function number(id) {
  const whole = BigInt(id);
  return Number.isSafeInteger(Number(whole)) ? Number(whole) : String(whole);
}

function quoted(...names) {
  if (names.some((name) => !name || /[`%?:]/.test(name))) {
    throw new RangeError(`${names.join('.')} is no name of a column or table`);
  }
  return names.map((name) => `\`${name}\``).join('.');
}

module.exports = { Jobd, JobdError };
