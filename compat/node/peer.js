"use strict";
// The Node client, controlled over standard input and output: `node peer.js PACKAGE PORT`.
// One line per request, one line per reply; compat/README.md describes the format.

const path = require("path");
const readline = require("readline");

// Standard output is for replies, but the clients print errors there.
console.log = console.error;

const [packageName, port] = process.argv.slice(2);
const RedisSMQ = require(packageName);
const home = path.dirname(require.resolve(`${packageName}/package.json`));
const redis = require(require.resolve("redis", { paths: [home] }));

const connection = { host: "127.0.0.1", port: Number(port) };
const clients = new Map();
const received = [];
let subscriber = null;

function getClient(ns, realtime) {
  const key = `${ns} ${realtime}`;
  if (!clients.has(key)) {
    clients.set(key, new RedisSMQ({ ...connection, ns, realtime }));
  }
  return clients.get(key);
}

function call(client, op, args) {
  return new Promise((resolve, reject) => {
    const done = (error, result) => (error ? reject(error) : resolve(result));
    if (op === "listQueues") {
      client.listQueues(done);
    } else {
      client[op](args, done);
    }
  });
}

const COMMANDS = {
  version: () => require(path.join(home, "package.json")).version,

  // Closes the connections of a namespace.
  forget: async ({ ns }) => {
    for (const realtime of [false, true]) {
      const client = clients.get(`${ns} ${realtime}`);
      if (client) {
        await new Promise((resolve) => client.redis.quit(resolve));
        clients.delete(`${ns} ${realtime}`);
      }
    }
  },

  // Reads the record of a job, as docs/jobs.md shows it.
  job: ({ ns, qname, id }) =>
    new Promise((resolve, reject) => {
      const done = (error, record) => (error ? reject(error) : resolve(record));
      getClient(ns, false).redis.hgetall(`${ns}:${qname}:x:job:${id}`, done);
    }),

  // Subscribes to a channel as a Node program does.
  subscribe: ({ channel }) =>
    new Promise((resolve) => {
      subscriber = subscriber || redis.createClient(connection);
      subscriber.removeAllListeners("message");
      subscriber.on("message", (from, payload) => received.push([from, payload]));
      subscriber.subscribe(channel, () => resolve(true));
    }),

  // Returns the messages since the last request; waits for the first one.
  heard: async () => {
    for (let turn = 0; turn < 500 && received.length === 0; turn += 1) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return received.splice(0);
  },
};

async function reply({ op, args, ns, realtime }) {
  try {
    const result = COMMANDS[op]
      ? await COMMANDS[op]({ ns, ...args })
      : await call(getClient(ns, Boolean(realtime)), op, args);
    return { result: result === undefined ? null : result };
  } catch (error) {
    return { error: { name: error.name, message: error.message } };
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await reply(JSON.parse(line)))}\n`);
  }
  process.exit(0);
}

main();
