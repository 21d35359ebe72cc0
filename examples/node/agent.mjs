// HOOKGATE_URL=… HOOKGATE_KEY=… node examples/node/agent.mjs: one look at the account, and one transfer that people
// are asked about.

import { randomUUID } from "node:crypto";

import { Runtime } from "./runtime.mjs";

const { HOOKGATE_URL: url, HOOKGATE_KEY: key } = process.env;
if (!url || !key) {
  console.error("HOOKGATE_URL and HOOKGATE_KEY are not set: the portal's origin, and a runtime key of the agent");
  process.exit(2);
}

const runtime = new Runtime(url, key, "node-example");
const common = { agent: "bookkeeper", conversation: `node-${randomUUID()}`, initiator: { id: "kim", name: "Kim" } };

console.log(
  await runtime.callTool({ ...common, id: "call_01", tool: "bank__balance", args: {}, execute: () => "balance 70000" }),
);
console.log(
  await runtime.callTool({
    ...common,
    id: "call_02",
    tool: "bank__transfer",
    args: { amount: 60000, to: "北京办公家具" },
    execute: (args) => `sent ${args.amount} to ${args.to}`,
  }),
);
