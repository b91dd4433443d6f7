// The application that all of Node.js' jobs load: some of the modules that applications load.
for (const name of ['crypto', 'fs', 'http', 'https', 'net', 'path', 'readline', 'stream', 'url', 'util', 'zlib']) {
  require(`node:${name}`);
}

/** Runs one job: rings where somebody waits for that. */
exports.run = async (job) => {
  if (process.env.BENCH_BELL) require('node:fs').writeFileSync(process.env.BENCH_BELL, '\n');
  return 0;
};
