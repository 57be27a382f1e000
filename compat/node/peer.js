"use strict";
// The Node client behind standard input and output: `node peer.js PACKAGE PORT`.
// One request a line, one answer a line; compat/README.md has the format.

const path = require("path");
const readline = require("readline");

// Standard output is for answers; the clients print errors there.
console.log = console.error;

const [packageName, port] = process.argv.slice(2);
const RedisSMQ = require(packageName);
const home = path.dirname(require.resolve(`${packageName}/package.json`));
const redis = require(require.resolve("redis", { paths: [home] }));

const connection = { host: "127.0.0.1", port: Number(port) };
const clients = new Map();
const heard = [];
let subscriber = null;

function clientOf(ns, realtime) {
  const key = `${ns} ${realtime}`;
  if (!clients.has(key)) {
    clients.set(key, new RedisSMQ({ ...connection, ns, realtime }));
  }
  return clients.get(key);
}

function called(client, op, args) {
  return new Promise((resolve, reject) => {
    const done = (error, result) => (error ? reject(error) : resolve(result));
    if (op === "listQueues") {
      client.listQueues(done);
    } else {
      client[op](args, done);
    }
  });
}

const OWN = {
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

  // Listens to a channel as a Node program does.
  subscribe: ({ channel }) =>
    new Promise((resolve) => {
      subscriber = subscriber || redis.createClient(connection);
      subscriber.removeAllListeners("message");
      subscriber.on("message", (from, payload) => heard.push([from, payload]));
      subscriber.subscribe(channel, () => resolve(true));
    }),

  // What came since the last question; waits for the first.
  heard: async () => {
    for (let turn = 0; turn < 500 && heard.length === 0; turn += 1) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return heard.splice(0);
  },
};

async function answer({ op, args, ns, realtime }) {
  try {
    const result = OWN[op]
      ? await OWN[op]({ ns, ...args })
      : await called(clientOf(ns, Boolean(realtime)), op, args);
    return { result: result === undefined ? null : result };
  } catch (error) {
    return { error: { name: error.name, message: error.message } };
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
  }
  process.exit(0);
}

main();
