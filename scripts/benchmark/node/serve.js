"use strict";
// The part of a contender in Node that answers: ../contender.py has the format.

const readline = require("readline");

async function serve(operations) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const question = JSON.parse(line);
    let answer;
    try {
      answer = await operations[question.op](question);
    } catch (error) {
      answer = { error: `${error.name}: ${error.message}` };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  process.exit(0);
}

// Does the work; how long it took, and how many characters of bodies it read.
async function timed(work) {
  const cpu = process.cpuUsage();
  const begin = process.hrtime.bigint();
  const characters = await work();
  const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
  const { user, system } = process.cpuUsage(cpu);
  return { seconds, cpu_seconds: (user + system) / 1e6, characters };
}

// Does it `count` times, `lanes` of them at a time.
async function inLanes(once, count, lanes) {
  const lane = async () => {
    let characters = 0;
    for (let turn = 0; turn < count / lanes; turn += 1) {
      characters += await once();
    }
    return characters;
  };
  const sums = await Promise.all(Array.from({ length: lanes }, lane));
  return sums.reduce((sum, each) => sum + each, 0);
}

module.exports = { serve, timed, inLanes };
