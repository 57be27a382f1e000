"use strict";
// Unmodified npm rsmq: `node rsmq.js PORT`.

const path = require("path");

const { serve, measure, runConcurrently } = require("./serve");

const home = path.join(__dirname, "../../../compat/node/node_modules/rsmq");
const RedisSMQ = require(home);

const client = new RedisSMQ({ host: "127.0.0.1", port: Number(process.argv[2]) });

const ACTIONS = {
  send: async (qname, message) => {
    await client.sendMessageAsync({ qname, message });
    return 0;
  },
  receive: async (qname) => {
    const { id, message } = await client.receiveMessageAsync({ qname });
    await client.deleteMessageAsync({ qname, id });
    return message.length;
  },
};

// The calls that wake a waiting receiver; the body is the time of the send, in nanoseconds.
const WAKE_UPS = {
  sendMessage: (qname) =>
    client.sendMessageAsync({ qname, message: String(process.hrtime.bigint()) }),
  lpush: (key) =>
    new Promise((resolve, reject) => {
      client.redis.lpush(key, String(process.hrtime.bigint()), (error, length) =>
        error ? reject(error) : resolve(length)
      );
    }),
};

serve({
  versions: () => ({
    "Node": process.version.slice(1),
    "npm rsmq": require(path.join(home, "package.json")).version,
  }),

  run: ({ action, queue, body, count, step }) =>
    measure(() => runConcurrently(() => ACTIONS[action](queue, body), count, step)),

  clock: () => ({ nanoseconds: String(process.hrtime.bigint()) }),

  // Wakes the receiver after each of the pauses, in milliseconds; replies the duration of each call.
  signal: async ({ way, queue, pauses }) => {
    const milliseconds = [];
    for (const pause of pauses) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      const begin = process.hrtime.bigint();
      await WAKE_UPS[way](queue);
      milliseconds.push(Number(process.hrtime.bigint() - begin) / 1e6);
    }
    return { milliseconds };
  },
});
