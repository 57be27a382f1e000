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

// Rejects if a call takes longer than its time limit.
function limited(call, seconds) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`The call takes longer than ${seconds} s.`)), seconds * 1000);
  });
  return Promise.race([call, late]).finally(() => clearTimeout(timer));
}

// Sends, receives and deletes, each caller one call after the other; also returns their times.
async function mix({ queues, bodies, count, at_a_time: atATime, limit }) {
  const milliseconds = [];
  const timed = async (call) => {
    const begin = process.hrtime.bigint();
    const result = await call;
    milliseconds.push(Number(process.hrtime.bigint() - begin) / 1e6);
    return result;
  };
  const work = async (first) => {
    let characters = 0;
    for (let number = first; number < count; number += atATime) {
      const qname = queues[number % queues.length];
      const sending = { qname, message: bodies[number % bodies.length] };
      await timed(limited(client.sendMessageAsync(sending), limit));
      const { id, message } = await timed(client.receiveMessageAsync({ qname }));
      await timed(client.deleteMessageAsync({ qname, id }));
      characters += message.length;
    }
    return characters;
  };
  const times = await measure(async () => {
    const sums = await Promise.all(Array.from({ length: atATime }, (_, first) => work(first)));
    return sums.reduce((sum, each) => sum + each, 0);
  });
  return { ...times, milliseconds };
}

serve({
  mix,

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
