"use strict";
// BullMQ's worker, one for each queue: `node costs.js PORT QUEUES send COUNT SIZE TRACKED`, or `... work`.

const fs = require("fs");

const { Queue, Worker } = require("bullmq");

const [port, queues, action, count, size, tracked] = process.argv.slice(2);
const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
const names = Array.from({ length: Number(queues) }, (_, number) => `q${number}`);

async function send() {
  const opened = names.map((name) => new Queue(name, { connection }));
  const body = size === "0" ? "first" : "x".repeat(Number(size));
  const options = tracked === "1" ? {} : { removeOnComplete: true };
  for (let number = 0; number < Number(count); number += 1) {
    await opened[number % opened.length].add("job", body, options);
  }
  await Promise.all(opened.map((each) => each.close()));
}

function handle(job) {
  if (job.data === "first") {
    fs.writeFileSync(`${process.env.COSTS_FIRST}.new`, String(Number(process.hrtime.bigint()) / 1e9));
    fs.renameSync(`${process.env.COSTS_FIRST}.new`, process.env.COSTS_FIRST);
  }
  return "ok";
}

if (action === "send") {
  send();
} else {
  const workers = names.map((name) => new Worker(name, async (job) => handle(job), { connection }));
  process.once("SIGTERM", () => Promise.all(workers.map((each) => each.close())).then(() => process.exit(0)));
}
