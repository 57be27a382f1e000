"use strict";
// npm's rsmq-worker on a queue: `node worker.js PORT NAMESPACE QUEUE OPTIONS`, OPTIONS as JSON.
// It prints a line of JSON for each event. Lines on standard input, in JSON, call its methods:
// {"op": "send", "args": ["hello", 0]}. The handler of "message" does what the body begins with.

const readline = require("readline");
const RSMQWorker = require("rsmq-worker");

const [port, ns, queue, options] = process.argv.slice(2);
const print = (event, fields) => process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
// Standard output is for events, but the worker logs there.
console.log = console.error;

const exempt = { customExceedCheck: (message) => message.message.startsWith("exempt") };
const worker = new RSMQWorker(queue, {
  host: "127.0.0.1",
  port: Number(port),
  redisPrefix: ns,
  ...exempt,
  ...JSON.parse(options || "{}"),
});

worker.on("message", (body, next, id) => {
  print("message", { body, id });
  if (body.startsWith("fail")) {
    next(new Error("failed"));
  } else if (body.startsWith("throw")) {
    throw new Error("thrown");
  } else if (body.startsWith("keep") || body.startsWith("exempt")) {
    next(false);
  } else if (!body.startsWith("hang")) {
    next();
  }
});
for (const event of ["ready", "stopped"]) {
  worker.on(event, () => print(event));
}
for (const event of ["data", "exceeded", "timeout"]) {
  worker.on(event, (message) => print(event, { id: message.id, count: message.rc }));
}
for (const event of ["deleted", "new"]) {
  worker.on(event, (id) => print(event, { id }));
}
worker.on("error", (error, message) => print("error", { text: error.message, id: message.id }));

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { op, args } = JSON.parse(line);
  worker[op](...(args || []));
});
process.stdin.on("end", () => process.exit(0));
