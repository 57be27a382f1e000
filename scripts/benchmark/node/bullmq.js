"use strict";
// BullMQ: `node bullmq.js PORT`.

const { setTimeout } = require("timers/promises");

const { Queue, Worker } = require("bullmq");

const { serve, measure, runConcurrently } = require("./serve");

const connection = { host: "127.0.0.1", port: Number(process.argv[2]) };
const queues = new Map();

function getQueue(name) {
  if (!queues.has(name)) {
    queues.set(name, new Queue(name, { connection }));
  }
  return queues.get(name);
}

function jobs(body, count) {
  return Array.from({ length: count }, () => ({ name: "job", data: body }));
}

const SEND = {
  "one by one": (queue, body, count, step) =>
    runConcurrently(async () => { await queue.add("job", body); return 0; }, count, step),

  "bulks": (queue, body, count, step) =>
    runConcurrently(async () => { await queue.addBulk(jobs(body, step)); return 0; }, count / step, 1),
};

// Measures a worker that handles `step` jobs at a time, from the first job to the last; each handler
// sleeps for `sleepMs`.
async function receive(queue, count, step, sleepMs) {
  let characters = 0;
  let completed = 0;
  const read = async (job) => {
    characters += job.data.length;
    if (sleepMs) { await setTimeout(sleepMs); }
  };
  const worker = new Worker(queue, read, {
    connection, concurrency: step, autorun: false, removeOnComplete: { count: 0 },
  });
  await worker.waitUntilReady();
  const result = await measure(async () => {
    await new Promise((resolve, reject) => {
      worker.on("error", reject);
      worker.on("failed", (job, error) => reject(error));
      worker.on("completed", () => { completed += 1; if (completed === count) resolve(); });
      worker.run();
    });
    return characters;
  });
  await worker.close();
  return result;
}

serve({
  versions: () => ({
    "BullMQ": require("bullmq/package.json").version,
    "ioredis": require("ioredis/package.json").version,
  }),

  fill: async ({ queue, body, count }) => {
    await getQueue(queue).addBulk(jobs(body, count));
    return {};
  },

  run: ({ action, way, queue, body, count, step, sleep_ms: sleepMs }) =>
    action === "send"
      ? measure(() => SEND[way](getQueue(queue), body, count, step))
      : receive(queue, count, step, sleepMs),
});
