require('./app.cjs').run(Number(process.argv[2])).then((code) => { process.exitCode = code; });
