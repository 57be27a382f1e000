"use strict";
// npm rsmq as it is: `node rsmq.js PORT`.

const path = require("path");

const { serve, timed, inLanes } = require("./serve");

const home = path.join(__dirname, "../../../compat/node/node_modules/rsmq");
const RedisSMQ = require(home);

const client = new RedisSMQ({ host: "127.0.0.1", port: Number(process.argv[2]) });

const ONCE = {
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

// What wakes a waiting receiver; its time of sending, in nanoseconds, is the body.
const SIGNAL = {
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
    timed(() => inLanes(() => ONCE[action](queue, body), count, step)),

  clock: () => ({ nanoseconds: String(process.hrtime.bigint()) }),

  // Sends a signal after each of the pauses, in milliseconds; how long each call took.
  signal: async ({ way, queue, pauses }) => {
    const milliseconds = [];
    for (const pause of pauses) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      const begin = process.hrtime.bigint();
      await SIGNAL[way](queue);
      milliseconds.push(Number(process.hrtime.bigint() - begin) / 1e6);
    }
    return { milliseconds };
  },
});
