"use strict";
// The request loop of a contender in Node; ../contender.py describes the format.

const readline = require("readline");

async function serve(operations) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let reply;
    try {
      reply = await operations[request.op](request);
    } catch (error) {
      reply = { error: `${error.name}: ${error.message}` };
    }
    process.stdout.write(`${JSON.stringify(reply)}\n`);
  }
  process.exit(0);
}

// Runs the work; returns its times, and the number of characters of bodies that it read.
async function measure(work) {
  const cpu = process.cpuUsage();
  const begin = process.hrtime.bigint();
  const characters = await work();
  const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
  const { user, system } = process.cpuUsage(cpu);
  return { seconds, cpu_seconds: (user + system) / 1e6, characters };
}

// Calls it `count` times, `concurrency` of them at a time; returns the sum of the results.
async function runConcurrently(call, count, concurrency) {
  const runSequentially = async () => {
    let characters = 0;
    for (let turn = 0; turn < count / concurrency; turn += 1) {
      characters += await call();
    }
    return characters;
  };
  const sums = await Promise.all(Array.from({ length: concurrency }, runSequentially));
  return sums.reduce((sum, each) => sum + each, 0);
}

module.exports = { serve, measure, runConcurrently };
